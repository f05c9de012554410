"""Proof of configuration: what an attempt's server says it ran, fact by fact, against what its cell asks for.

Nothing is taken from the command line as proof of itself. A fact that no source states is `unknown`, with where it was
looked for. A fact without an expected value is only recorded.
"""

from collections.abc import Iterable, Mapping, Sequence

from matrix.engines.overlay import Overlay, ProofRule, ShapeName, ShapeRule
from matrix.engines.proof_server import graphs, honest_acceptance, nvls, reported_version, served
from matrix.engines.readback import graph_passes, lookup, number, read_log
from matrix.engines.statement import INFO, LOG, Sources, judged, unknown
from repro.model import Expectation, Proof, Scalar


def prove(
    expectation: Expectation,
    *,
    overlay: Overlay,
    server_info: object = None,
    metrics_start: str | None = None,
    metrics_end: str | None = None,
    log_lines: Iterable[str] = (),
    histograms: Sequence[Sequence[int]] = (),
    argv: Sequence[str] = (),
    version: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[Proof, ...]:
    """Every fact of the configuration, always in the same order. Never raises on odd, missing or hostile input.

    ``server_info`` is the parsed reply, the metrics are texts of before and after the checks, ``histograms`` the
    requests' counts of accepted drafts. ``argv`` and ``version`` say what else was asked for; ``environment`` is that
    of the server, or None if it was not recorded.
    """
    rule = _shape_rule(expectation, overlay)
    patterns = [proof.pattern for proof in (rule.width_proof, rule.topk_proof) if proof.pattern] if rule else []
    sources = Sources(
        expectation=expectation,
        info=server_info,
        log=read_log(log_lines, patterns),
        passes=graph_passes(metrics_start, metrics_end),
        argv=argv,
    )
    speculative: list[Proof] = []
    if rule is not None:
        speculative = [_width(rule.width_proof, sources, histograms), *_topk(rule, sources), _graph_width(sources)]
    elif expectation.algorithm is not None:
        why = f"no shape of overlay {overlay.name} has the algorithm {expectation.algorithm}"
        speculative = [
            unknown("width", expectation.width, why),
            unknown("topk", expectation.topk_effective, why),
        ]
    return (
        _algorithm(sources),
        *speculative,
        _window(sources),
        *graphs(sources),
        *nvls(sources),
        *served(sources),
        reported_version(sources, version),
        honest_acceptance(environment),
    )


def _shape_rule(expectation: Expectation, overlay: Overlay) -> ShapeRule | None:
    """The overlay's rule for the cell. Where chain and tree share an algorithm, the requested top-k tells."""
    if expectation.algorithm is None:
        return None
    order: tuple[ShapeName, ...] = ("tree", "chain", "ngram")
    rules = [overlay.shapes[shape] for shape in order if shape in overlay.shapes]
    named = [rule for rule in rules if rule.algorithm == expectation.algorithm]
    chains = [rule for rule in named if rule.topk.rule == "one"]
    return next(iter(chains if expectation.topk_requested == 1 and chains else named), None)


def _algorithm(sources: Sources) -> Proof:
    expected = sources.expectation.algorithm
    there, value = lookup(sources.info, "speculative_algorithm")
    if not there or not isinstance(value, str | None):
        return unknown("algorithm", expected, f"{INFO} speculative_algorithm")
    observed = None if value is None or value.upper() in ("", "NONE") else value.upper()
    agrees = observed == (expected.upper() if expected else None)
    return Proof(
        fact="algorithm",
        expected=expected,
        observed=observed,
        state="proven" if agrees else "contradicted",
        source=f"{INFO} speculative_algorithm",
    )


def _width(rule: ProofRule, sources: Sources, histograms: Sequence[Sequence[int]]) -> Proof:
    """The verify width; contradicted also where a request had more drafts accepted in a step than the width allows."""
    expected = sources.expectation.width
    proof = _by_rule("width", expected, rule, sources)
    deepest = max((_deepest(histogram) for histogram in histograms), default=0)
    if proof.state != "contradicted" and expected is not None and deepest > expected - 1:
        text = f"meta_info spec_correct_drafts_histogram: {deepest} drafts accepted in one step"
        return Proof(fact="width", expected=expected, observed=deepest + 1, state="contradicted", source=text)
    return proof


def _deepest(histogram: Sequence[int]) -> int:
    return max((place for place, count in enumerate(histogram) if (number(count) or 0) > 0), default=0)


def _topk(rule: ShapeRule, sources: Sources) -> list[Proof]:
    """The top-k; nothing at all where none was asked for and none can be read."""
    expectation = sources.expectation
    expected = expectation.topk_effective
    if rule.topk_proof.how == "derived":
        proof = _derived_topk(rule, sources)
    else:
        proof = _by_rule("topk", expected, rule.topk_proof, sources)
    return [] if expectation.topk_requested is None and proof.state == "unknown" else [proof]


def _derived_topk(rule: ShapeRule, sources: Sources) -> Proof:
    expected, requested = sources.expectation.topk_effective, sources.expectation.topk_requested
    found = sources.log.found.get(rule.topk_proof.pattern or "", [])
    made = set()
    for groups, _ in found:
        budget, block_size = number(groups.get("budget")), number(groups.get("block_size"))
        if budget is not None:
            made.add(rule.topk.effective(budget=budget, requested=requested, block_size=block_size))
    if len(made) != 1 or None in made:
        return unknown("topk", expected, f"{LOG}: no line, or several, with the budget and block size")
    return judged("topk", expected, made.pop(), f"derived from the budget and block size in {LOG} by the source's rule")


def _by_rule(fact: str, expected: Scalar, rule: ProofRule, sources: Sources) -> Proof:
    if rule.how == "server-info" and rule.key is not None:
        value = number(lookup(sources.info, rule.key)[1])
        where = f"{INFO} {rule.key}"
        return unknown(fact, expected, where) if value is None else judged(fact, expected, value, where)
    if rule.how == "log" and rule.pattern is not None:
        values = {number(text) for _, text in sources.log.found.get(rule.pattern, [])} - {None}
        where = f"{LOG}: {rule.pattern}"
        if len(values) > 1:
            seen = ", ".join(str(value) for value in sorted(value for value in values if value is not None))
            return Proof(fact=fact, expected=expected, observed=seen, state="contradicted", source=where)
        return judged(fact, expected, values.pop(), where) if values else unknown(fact, expected, where)
    return unknown(fact, expected, rule.note or "nowhere: the engine source does not state it")


def _graph_width(sources: Sources) -> Proof:
    """The width that the verify graph was captured with. Only recorded, never expected: a captured width other than the
    verify width is one of the faults that the matrix looks for, and must not void the cell that shows it."""
    widths = sources.log.capture_widths
    where = f"{LOG}: Capture target verify … num_tokens_per_bs or _req"
    if not widths:
        return unknown("graph_width", None, where)
    return judged("graph_width", None, widths[0] if len(widths) == 1 else ", ".join(map(str, widths)), where)


def _window(sources: Sources) -> Proof:
    expected = sources.expectation.window
    for key in ("speculative_draft_window_size", "speculative_dflash_draft_window_size"):
        there, value = lookup(sources.info, key)
        if there and (value is None or number(value) is not None):
            return judged("window", expected, number(value), f"{INFO} {key}")
    return unknown("window", expected, f"{INFO} speculative_draft_window_size")
