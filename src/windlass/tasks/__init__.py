"""Tasks: a source, a target, and the metrics people report. A task knows data, never models."""

from windlass.tasks.base import Task
from windlass.tasks.classify import CLASSIFY
from windlass.tasks.classify_document import CLASSIFY_DOCUMENT
from windlass.tasks.entail import ENTAIL
from windlass.tasks.lm import LM
from windlass.tasks.multilabel import MULTILABEL
from windlass.tasks.parse import PARSE, UNPARSE
from windlass.tasks.pronounce import PRONOUNCE
from windlass.tasks.regress import REGRESS, SIMILARITY
from windlass.tasks.reply import REPLY
from windlass.tasks.summarise import SUMMARISE
from windlass.tasks.tag import TAG
from windlass.tasks.tag_document import TAG_DOCUMENT
from windlass.tasks.text import TEXT
from windlass.tasks.translate import TRANSLATE
from windlass.tasks.transliterate import TRANSLITERATE

_ALL = (
    *(PRONOUNCE, TRANSLITERATE, TRANSLATE, SUMMARISE, REPLY, TEXT, PARSE, UNPARSE),
    *(CLASSIFY, CLASSIFY_DOCUMENT, MULTILABEL, TAG, TAG_DOCUMENT, ENTAIL, REGRESS, SIMILARITY, LM),
)
TASKS: dict[str, Task] = {task.name: task for task in _ALL}
"""Every task by its name."""

__all__ = ["TASKS", "Task"]
