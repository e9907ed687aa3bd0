"""Search, against every output written out and scored on a tiny vocabulary, and against counts."""

import itertools
import math

import pytest
import torch

from windlass.core.errors import RecipeError
from windlass.core.marks import BOS, EOS
from windlass.core.records import Batch, Hypothesis, Member, Memory, Padded, Record
from windlass.decoding.ensemble import Ensemble
from windlass.decoding.options import Beam, Greedy, Sample
from windlass.decoding.sampling import block_ngrams, draw, uniform
from windlass.decoding.search import SearchRequest, search, stream
from windlass.heads.recurrent import RecurrentDecoder

V, D = 7, 5  # ids that may come out: 1, 4, 5, 6 and the end mark 3
OUT = (1, 4, 5, 6)


def head(seed=0, sharp=3.0, end=0.0):
    torch.manual_seed(seed)
    context = {"kind": "attention", "score": {"kind": "additive", "size": 4}}
    options = RecurrentDecoder.Options(
        size=6, cell="gru", embedding={"kind": "learned", "size": 4}, start="summary", context=context
    )
    made = RecurrentDecoder(options, V, D, ()).double().eval()
    made.embedding.table.data.mul_(3)
    made.output.weight.data.mul_(sharp)
    made.output.bias.data[EOS] += end
    return made


def memory(rows=4, seed=0, S=3):
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(rows, S, D, dtype=torch.float64, generator=generator)
    summary = torch.randn(rows, D, dtype=torch.float64, generator=generator) * 2
    mask = torch.ones(rows, S, dtype=torch.bool)
    return Memory(states, mask, summary)


def reading(lengths):
    """A batch with sources of these lengths, which bound those of the outputs."""
    return Batch({"source": Padded.of([[4] * n for n in lengths])}, None, torch.arange(len(lengths)))


def aimed(rows):
    """A batch with these targets."""
    return Batch({}, Padded.of(rows), torch.arange(len(rows)))


def every_output(made, given, row, limit):
    """All outputs that end within the limit: ids -> log probability, each token scored by its own forced step."""
    one = given.select(torch.tensor([row]))
    rows = [list(ids) for length in range(limit) for ids in itertools.product(OUT, repeat=length)]
    many = one.repeat(len(rows))
    with torch.no_grad():
        logp, _ = made.reference_logprobs(many, aimed([[*ids, EOS] for ids in rows]))
    return {tuple(ids): p for ids, p in zip(rows, logp.sum(1).tolist(), strict=True)}


@pytest.mark.parametrize("penalty", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("end", [-2.0, 0.0, 1.5])
def test_a_full_beam_finds_the_best_of_all_outputs_and_the_list_after_it(penalty, end):
    made, given = head(end=end), memory()
    limit = 4
    found = search(
        [Member(made, given)],
        SearchRequest(Beam(size=400, length_penalty=penalty, length_factor=1, length_plus=1), nbest=5),
    )
    for row, hypotheses in enumerate(found):
        scores = every_output(made, given, row, limit)
        ranked = sorted(scores, key=lambda ids: -scores[ids] / (len(ids) + 1) ** penalty)[:5]
        assert [h.ids for h in hypotheses] == ranked
        for h in hypotheses:
            assert h.finished
            assert h.score == pytest.approx(scores[h.ids] / (len(h.ids) + 1) ** penalty)
            assert sum(h.logprobs) == pytest.approx(scores[h.ids])


def test_penalties_rank_differently_so_that_the_test_above_can_tell_them_apart():
    given = memory(rows=12)
    best = [
        [
            h[0].ids
            for h in search(
                [Member(head(), given)], SearchRequest(Beam(size=400, length_penalty=p, length_factor=1, length_plus=1))
            )
        ]
        for p in (0.0, 0.5, 1.0)
    ]
    assert best[0] != best[1] != best[2]
    assert sum(map(len, best[0])) <= sum(map(len, best[2]))


def test_a_wider_beam_finds_what_greedy_search_misses():
    given = memory(rows=12)
    greedy = [h[0] for h in search([Member(head(), given)], SearchRequest(Greedy(length_factor=1, length_plus=1)))]
    wide = [
        h[0]
        for h in search(
            [Member(head(), given)], SearchRequest(Beam(size=50, length_penalty=0, length_factor=1, length_plus=1))
        )
    ]
    assert any(a.ids != b.ids for a, b in zip(greedy, wide, strict=True))
    assert all(b.score >= a.score - 1e-12 for a, b in zip(greedy, wide, strict=True) if a.finished)


def by_beam(made, given, row, size, penalty, limit):
    """Beam search in plain Python, re-scoring every prefix from its beginning."""
    one = given.select(torch.tensor([row]))

    def following(ids):
        with torch.no_grad():
            source, state = made.begin(one)
            for token in (BOS, *ids):
                logp, state, _ = made.step(torch.tensor([token]), state, source)
        return logp[0].tolist()

    live, ended = {(): 0.0}, {}
    for step in range(1, limit + 1):
        options = [((*ids, w), p + following(ids)[w]) for ids, p in live.items() for w in (*OUT, EOS)]
        kept = sorted(options, key=lambda o: -o[1])[:size]
        ended |= {ids[:-1]: p / step**penalty for ids, p in kept if ids[-1] == EOS}
        live = {ids: p for ids, p in kept if ids[-1] != EOS}
    cut = sorted(live, key=lambda ids: -live[ids])
    return sorted(ended, key=lambda ids: -ended[ids]) + cut


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_a_narrow_beam_is_the_plain_beam(size, penalty):
    made, given, batch = head(), memory(), reading([3, 1, 4, 2])
    options = Beam(size=size, length_penalty=penalty, length_factor=1, length_plus=1)
    for row, hypotheses in enumerate(search([Member(made, given, batch)], SearchRequest(options))):
        right = by_beam(made, given, row, size, penalty, [4, 2, 5, 3][row])
        assert hypotheses[0].ids == right[0]


def test_greedy_takes_the_likeliest_and_stops_at_the_end_mark_or_is_cut_off_and_says_so():
    made, given, batch = head(), memory(rows=12), reading([1, 2, 3, 4] * 3)
    found = search([Member(made, given, batch)], SearchRequest(Greedy(length_factor=1, length_plus=1)))
    kinds = set()
    for row, (h,) in enumerate(found):
        limit = [1, 2, 3, 4][row % 4] + 1
        source, state = made.begin(given.select(torch.tensor([row])))
        token, ids = BOS, []
        while len(ids) < limit and token != EOS:
            logp, state, _ = made.step(torch.tensor([token]), state, source)
            token = max((*OUT, EOS), key=lambda w: logp[0, w])
            ids.append(token)
        assert h.finished == (ids[-1] == EOS)
        assert h.ids == tuple(ids[:-1] if h.finished else ids)
        assert len(h.logprobs) == len(ids)
        assert h.weights.shape == (len(ids), 3)
        kinds.add((h.finished, len(ids)))
    assert {finished for finished, _ in kinds} == {True, False}
    assert len(kinds) > 3  # rows left the batch at different times


@pytest.mark.parametrize(("factor", "plus", "length"), [(0.0, 5, 5), (1.0, 2, 5), (1.5, 1, 5), (2.0, 1, 7)])
@pytest.mark.parametrize("kind", [Greedy, Beam, Sample])
def test_an_output_is_cut_off_at_its_sources_length_times_factor_plus_some(kind, factor, plus, length):
    made = head(end=-math.inf)
    (hypotheses,) = search(
        [Member(made, memory(rows=1, S=4), reading([3]))], SearchRequest(kind(length_factor=factor, length_plus=plus))
    )
    assert len(hypotheses[0].ids) == len(hypotheses[0].logprobs) == length
    assert not hypotheses[0].finished


def test_without_a_batch_the_places_of_the_memory_count():
    given = memory(rows=1)
    (hypotheses,) = search([Member(head(end=-50.0), given)], SearchRequest(Greedy(length_factor=2, length_plus=1)))
    assert len(hypotheses[0].ids) == 7


@pytest.mark.parametrize("nbest", [1, 3, 8])
@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_list_is_as_long_as_asked_for_even_where_the_beam_was_narrower(size, nbest):
    for hypotheses in search(
        [Member(head(), memory())], SearchRequest(Beam(size=size, length_factor=1, length_plus=3), nbest=nbest)
    ):
        assert len(hypotheses) == nbest
        assert len({(h.ids, h.finished) for h in hypotheses}) == nbest


def test_a_longer_list_begins_with_the_shorter_one():
    lists = [
        search([Member(head(), memory())], SearchRequest(Beam(size=6, length_factor=1, length_plus=3), nbest=n))
        for n in (1, 2, 5)
    ]
    for one, two, five in zip(*lists, strict=True):
        assert [h.ids for h in one] == [h.ids for h in five[:1]]
        assert [h.ids for h in two] == [h.ids for h in five[:2]]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", [Greedy, Sample, lambda **more: Beam(size=3, **more)])
def test_no_run_of_n_tokens_comes_twice_and_the_end_stays_open(kind, n):
    made = head(end=-3.0)
    repeats = 0
    for block in (n, 0):
        for (h,) in search(
            [Member(made, memory(rows=8))], SearchRequest(kind(length_factor=0, length_plus=30, block_ngrams=block))
        ):
            runs = [h.ids[i : i + n] for i in range(len(h.ids) - n + 1)]
            repeats += len(runs) - len(set(runs))
            if block:
                assert len(runs) == len(set(runs))
                assert all(p > -math.inf for p in h.logprobs)
                if n == 1:
                    assert h.finished  # four tokens, then nothing but the end is left
                    assert len(h.ids) <= 4
    assert repeats > 0


def test_blocking_looks_at_each_rows_own_history():
    blocked = block_ngrams(torch.zeros(2, 6), torch.tensor([[4, 5, 4], [5, 5, 4]]), n=2)
    assert blocked.isinf().nonzero().tolist() == [[0, 5]]
    same = torch.zeros(2, 6)
    assert block_ngrams(same, torch.tensor([[4, 5, 4], [5, 5, 4]]), n=0) is same


# -- sampling

P = torch.tensor([0.4, 0.3, 0.2, 0.06, 0.04], dtype=torch.float64)


def frequencies(options, p=P, draws=20000):
    tokens = draw(p.log().repeat(draws, 1), options, torch.arange(draws), step=2)
    return torch.bincount(tokens, minlength=p.numel()).double() / draws


def renormalised(p):
    return p / p.sum()


DRAWN = {
    "plain": (Sample(), P),
    "cold": (Sample(temperature=0.5), renormalised(P**2)),
    "hot": (Sample(temperature=2.0), renormalised(P**0.5)),
    "top 2": (Sample(top_k=2), renormalised(P * torch.tensor([1, 1, 0, 0, 0]))),
    "top p .75": (Sample(top_p=0.75), renormalised(P * torch.tensor([1, 1, 1, 0, 0]))),
    "top p .7": (Sample(top_p=0.699), renormalised(P * torch.tensor([1, 1, 0, 0, 0]))),
    "top p tiny": (Sample(top_p=0.01), torch.tensor([1.0, 0, 0, 0, 0])),
    "top k beyond": (Sample(top_k=50), P),
    "both": (Sample(top_k=3, top_p=0.5), renormalised(P * torch.tensor([1, 1, 0, 0, 0]))),
}


@pytest.mark.parametrize("name", DRAWN)
def test_tokens_are_drawn_as_often_as_they_should_be(name):
    options, right = DRAWN[name]
    assert torch.allclose(frequencies(options), right.double(), atol=0.015)
    assert not frequencies(options)[right == 0].any()


def test_the_order_of_the_vocabulary_does_not_matter():
    turned = torch.tensor([3, 0, 4, 2, 1])
    assert torch.allclose(frequencies(Sample(top_k=3), P[turned]), frequencies(Sample(top_k=3))[turned], atol=0.015)


def test_what_may_not_come_is_never_drawn():
    p = P.clone()
    p[0] = 0
    assert frequencies(Sample(temperature=5.0), p)[0] == 0


def test_draws_are_even_and_differ_by_seed_key_and_step():
    keys = torch.arange(20000)
    u = uniform(0, keys, 0)
    assert u.min() > 0
    assert u.max() < 1
    assert torch.allclose(torch.histc(u, 10, 0, 1) / 20000, torch.full((10,), 0.1, dtype=torch.float64), atol=0.01)
    for other in (
        uniform(1, keys, 0),
        uniform(0, keys + 20000, 0),
        uniform(0, keys, 1),
        uniform(0, keys, 1000),
    ):
        assert abs(torch.corrcoef(torch.stack([u, other]))[0, 1]) < 0.03


def test_whole_outputs_are_sampled_as_often_as_the_model_says():
    made, given = head(sharp=1.0, end=1.0), memory(rows=1)
    (found,) = search([Member(made, given)], SearchRequest(Sample(seed=4, length_factor=1, length_plus=1), nbest=800))
    scores = every_output(made, given, 0, 4)
    # PAD and BOS may not come: what is left at each step is made to sum to one, so that only shares compare.
    short = {ids: math.exp(p) for ids, p in scores.items() if len(ids) == 1}
    counts = {ids: sum(h.ids == ids for h in found) for ids in short}
    total = sum(counts.values())
    assert total > 100
    for ids, p in short.items():
        assert counts[ids] / total == pytest.approx(adjusted(made, given, ids, p, short), abs=0.09)
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def adjusted(made, given, ids, p, short):
    def left(prefix):
        source, state = made.begin(given)
        for token in (BOS, *prefix):
            logp, state, _ = made.step(torch.tensor([token]), state, source)
        return logp[0, [*OUT, EOS]].exp().sum().item()

    shares = {other: q / left(other) for other, q in short.items()}
    return shares[ids] / sum(shares.values())


def test_a_seed_gives_the_same_samples_again_and_another_seed_others():
    def ids(seed):
        found = search(
            [Member(head(sharp=0.5), memory())],
            SearchRequest(Sample(seed=seed, length_factor=1, length_plus=5), nbest=3),
        )
        return [[h.ids for h in row] for row in found]

    assert ids(1) == ids(1) != ids(2)
    assert len({h for row in ids(1) for h in row}) > 6


def test_a_rows_samples_go_with_its_key_and_not_with_its_place():
    made, given = head(sharp=0.5), memory()
    turn = torch.tensor([2, 0, 3, 1])
    here = search([Member(made, given)], SearchRequest(Sample(), nbest=2, keys=torch.tensor([10, 11, 12, 13])))
    there = search(
        [Member(made, given.select(turn))], SearchRequest(Sample(), nbest=2, keys=torch.tensor([10, 11, 12, 13])[turn])
    )
    assert [[h.ids for h in here[i]] for i in turn] == [[h.ids for h in row] for row in there]


# -- ensembles and forced scoring


def test_an_ensemble_is_the_mean_of_probabilities():
    heads, given = [head(1), head(2), head(3)], memory()
    ensemble = Ensemble([Member(each, given) for each in heads])
    state = ensemble.begin()
    tokens = torch.tensor([BOS, 4, 5, 6])
    together, _, weights = ensemble.step(tokens, state)
    each = [h.step(tokens, *reversed(h.begin(given))) for h in heads]
    mean = sum(logp.exp() for logp, _, _ in each) / 3
    assert torch.allclose(together.exp(), mean, rtol=1e-12, atol=0)
    assert not torch.allclose(together, sum(logp for logp, _, _ in each) / 3)
    assert torch.allclose(weights, sum(w for _, _, w in each) / 3)


def test_an_ensemble_searches_with_the_mean_and_one_model_twice_is_that_model():
    heads, given = [head(1), head(2)], memory()
    for options in (Greedy(length_factor=1, length_plus=1), Beam(size=30, length_factor=1, length_plus=1)):
        found = search([Member(each, given) for each in heads], SearchRequest(options))
        for row, (h,) in enumerate(found):
            ids = [*h.ids, EOS][: len(h.logprobs)]
            one = given.select(torch.tensor([row]))
            forced = [m.reference_logprobs(one, aimed([ids]))[0][0].exp() for m in heads]
            assert h.logprobs == pytest.approx(((forced[0] + forced[1]) / 2).log().tolist(), abs=1e-12)
        alone = search([Member(heads[0], given)], SearchRequest(options))
        twice = search([Member(heads[0], given)] * 2, SearchRequest(options))
        assert [h[0].ids for h in alone] == [h[0].ids for h in twice]
        assert alone[0][0].score == pytest.approx(twice[0][0].score, abs=1e-12)


def test_models_that_see_different_places_show_the_first_ones_attention():
    first, second = memory(rows=2, S=3), memory(rows=2, S=4)
    found = search([Member(head(1), first), Member(head(2), second)], SearchRequest(Beam(size=2)))
    assert all(h[0].weights.size(1) == 3 for h in found)


def test_forcing_scores_each_row_to_its_own_end():
    made, given = head(), memory(rows=2)
    long, short = made.force(given, aimed([[4, 5, 6, EOS], [6, EOS]]))
    assert (long.ids, short.ids) == ((4, 5, 6), (6,))
    assert (len(long.logprobs), len(short.logprobs)) == (4, 2)
    assert short.weights.shape == (2, 3)
    source, state = made.begin(given)
    logp, state, _ = made.step(torch.tensor([BOS, BOS]), state, source)
    then, _, _ = made.step(torch.tensor([4, 6]), state, source)
    assert short.logprobs == pytest.approx([logp[1, 6].item(), then[1, EOS].item()])
    assert short.score == pytest.approx(sum(short.logprobs))
    (cut,) = made.force(given.select(torch.tensor([0])), aimed([[4, 5]]))
    assert not cut.finished
    assert cut.ids == (4, 5)


# -- one output, token by token


def alone(seed=0, end=0.0):
    """A head that sees nothing but what it wrote."""
    torch.manual_seed(seed)
    table = {"kind": "learned", "size": 4}
    options = RecurrentDecoder.Options(size=6, cell="gru", embedding=table, start="learned", context="none")
    made = RecurrentDecoder(options, V, 0, ()).double().eval()
    for parameter in made.parameters():
        parameter.data.normal_()
    made.output.bias.data[EOS] += end
    return made


def streamed(made, options, prompt=(), key=0, forbidden=()):
    members = [Member(each, Memory.empty(1)) for each in (made if isinstance(made, list) else [made])]
    return list(stream(members, SearchRequest(options, keys=torch.tensor([key]), forbidden=forbidden), prompt))


@torch.no_grad()
def after(made, ids):
    """Log probabilities of what follows, read from the beginning."""
    source, state = made.begin(Memory.empty(1))
    for token in (BOS, *ids):
        logp, state, _ = made.step(torch.tensor([token]), state, source)
    return logp[0]


@pytest.mark.parametrize("options", [Greedy(), Sample(seed=2), Sample(seed=5, top_k=3, temperature=2.0)])
def test_a_stream_is_what_the_search_finds(options):
    given = memory(rows=8)
    found = search([Member(head(), given)], SearchRequest(options, keys=torch.arange(8)))
    for row, (h,) in enumerate(found):
        member = Member(head(), given.select(torch.tensor([row])))
        assert list(stream([member], SearchRequest(options, keys=torch.tensor([row])))) == list(h.ids)
    assert len({h[0].ids for h in found}) > 1


@pytest.mark.parametrize("prompt", [(), (4,), (5, 5, 6, 1, 4)])
@pytest.mark.parametrize("sampled", [False, True])
def test_a_prompt_is_a_forced_prefix_of_which_nothing_comes_out(prompt, sampled):
    made, options = alone(end=-2.0), Sample(seed=7, length_plus=9) if sampled else Greedy(length_plus=9)
    ids = []
    while len(ids) < 9:
        logp = after(made, (*prompt, *ids)).index_fill(0, torch.tensor([0, BOS]), -math.inf)[None]
        token = int(draw(logp, options, torch.tensor([3]), len(ids)) if sampled else logp.argmax())
        if token == EOS:
            break
        ids.append(token)
    assert streamed(made, options, prompt, key=3) == ids
    assert ids


def test_an_ensemble_streams_with_the_mean_of_probabilities():
    heads = [alone(1), alone(2)]
    first = streamed(heads, Greedy(length_plus=1), prompt=[4], forbidden=(EOS,))
    mean = (after(heads[0], [4]).exp() + after(heads[1], [4]).exp()) / 2
    assert first == [max(OUT, key=lambda w: mean[w])]


def test_what_is_forbidden_never_comes_and_without_an_end_a_stream_is_as_long_as_told():
    made = alone(end=3.0)
    for prompt in ((), (6, 4)):
        assert len(streamed(made, Sample(seed=1, length_plus=40), prompt)) < 40
        endless = streamed(made, Sample(seed=1, length_plus=40), prompt, forbidden=(EOS, 1))
        assert len(endless) == 40
        assert set(endless) == {4, 5, 6}


def test_samples_of_a_stream_go_with_seed_and_key():
    made = alone(end=-3.0)
    drawn = {
        (seed, key): streamed(made, Sample(seed=seed, length_plus=12), key=key) for seed in (1, 2) for key in (0, 7)
    }
    assert drawn[1, 0] == streamed(made, Sample(seed=1, length_plus=12), key=0)
    assert len({tuple(ids) for ids in drawn.values()}) == 4


def test_blocked_runs_of_a_stream_include_those_of_the_prompt():
    made = alone(end=-50.0)
    prompt = streamed(made, Greedy(length_plus=20))
    free = streamed(made, Greedy(length_plus=12), prompt)
    blocked = streamed(made, Greedy(length_plus=12, block_ngrams=2), prompt)

    def pairs(ids):
        return list(itertools.pairwise(ids))

    assert set(pairs(prompt)) & set(pairs([prompt[-1], *free]))  # or blocking would have nothing to do
    found = pairs([prompt[-1], *blocked])
    assert len(set(found)) == len(found)
    assert found
    assert not set(found) & set(pairs(prompt))


def test_a_stream_takes_a_step_only_when_its_token_is_wanted():
    class Counting(Fixed):
        steps = 0

        def step(self, tokens, state, source):
            self.steps += 1
            return super().step(tokens, state, source)

    fixed = Counting([0.0, 1.0, 0.0, -math.inf, 2.0])
    tokens = stream([Member(fixed, memory(rows=1))], SearchRequest(Greedy(length_plus=30)))
    assert [next(tokens) for _ in range(3)] == [4, 4, 4]
    assert fixed.steps == 3


def test_a_beam_cannot_be_streamed():
    with pytest.raises(RecipeError, match="beam search knows its output only at the end"):
        streamed(alone(), Beam())


# -- strange heads


class Fixed:
    """A head whose distribution is given, the same at every step."""

    def __init__(self, logprobs):
        self.logprobs = torch.tensor(logprobs, dtype=torch.float64).log_softmax(-1)

    def begin(self, given, batch=None):
        return Rows(given.summary), Rows(given.summary)

    def step(self, tokens, state, source):
        return self.logprobs.expand(tokens.numel(), -1), state, None


class Rows(Record):
    def __init__(self, rows):
        object.__setattr__(self, "rows", rows)

    def map(self, fn):
        return Rows(fn(self.rows))


@pytest.mark.parametrize("options", [Greedy(), Beam(size=1), Beam(size=4), Sample()])
def test_the_distribution_a_head_returns_is_not_written_into(options):
    fixed = Fixed([0.0, 1.0, 0.0, 1.0, 2.0])
    before = fixed.logprobs.clone()
    search([Member(fixed, memory())], SearchRequest(options, nbest=3))
    assert torch.equal(fixed.logprobs, before)


def test_where_all_tokens_are_alike_every_search_gives_one_of_the_best():
    fixed = Fixed([0.0] * 9)
    options = {"length_factor": 0, "length_plus": 4}
    (greedy,), *_ = search([Member(fixed, memory())], SearchRequest(Greedy(**options)))
    (beam,), *_ = search([Member(fixed, memory())], SearchRequest(Beam(size=1, length_penalty=0, **options)))
    assert greedy.score == beam.score == pytest.approx(4 * math.log(1 / 9))


def test_a_head_that_can_only_end_ends_and_fills_no_list_with_nothing():
    fixed = Fixed([-math.inf, -math.inf, -math.inf, 0.0, -math.inf])
    for hypotheses in search([Member(fixed, memory())], SearchRequest(Beam(size=5), nbest=3)):
        assert [h.ids for h in hypotheses] == [()]
        assert hypotheses[0].score == 0
    assert search([Member(fixed, memory())], SearchRequest(Sample()))[0][0].ids == ()


def test_a_head_that_cannot_end_is_cut_off_everywhere():
    fixed = Fixed([0.0, 1.0, 0.0, -math.inf, 2.0])
    for options in (Greedy(length_plus=2), Beam(size=3, length_plus=2), Sample(length_plus=2)):
        for hypotheses in search([Member(fixed, memory(), reading([0, 1, 2, 3]))], SearchRequest(options)):
            assert not any(h.finished for h in hypotheses)
    lengths = [
        len(h[0].ids)
        for h in search([Member(fixed, memory(), reading([0, 1, 2, 3]))], SearchRequest(Beam(length_plus=2)))
    ]
    assert lengths == [2, 4, 6, 8]


def test_no_rows_no_output():
    assert search([Member(head(), memory().select(torch.tensor([], dtype=torch.long)))], SearchRequest(Beam())) == []


def test_a_hypothesis_is_plain_data():
    (found, *_) = search([Member(head(), memory())], SearchRequest(Beam()))
    assert isinstance(found[0], Hypothesis)
    assert all(isinstance(i, int) for i in found[0].ids)
    assert all(isinstance(p, float) for p in found[0].logprobs)
