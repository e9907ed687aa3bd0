"""Tasks: what goes in, what comes out, and the figures people report for it. A task knows data, never models."""

from windlass.tasks.base import Task
from windlass.tasks.classify import CLASSIFY
from windlass.tasks.entail import ENTAIL
from windlass.tasks.lm import LM
from windlass.tasks.parse import PARSE, UNPARSE
from windlass.tasks.pronounce import PRONOUNCE
from windlass.tasks.tag import TAG
from windlass.tasks.text import TEXT
from windlass.tasks.translate import TRANSLATE
from windlass.tasks.transliterate import TRANSLITERATE

TASKS: dict[str, Task] = {
    task.name: task for task in (PRONOUNCE, TRANSLITERATE, TRANSLATE, TEXT, CLASSIFY, TAG, LM, ENTAIL, PARSE, UNPARSE)
}
"""Every task by its name."""

__all__ = ["TASKS", "Task"]
