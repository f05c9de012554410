"""The words of the report: what each means, and the sign that stands beside it, so that colour never speaks alone."""

from collections.abc import Mapping

from repro import shares

SIGNS: Mapping[str, str] = {
    "pass": "✓",
    "fail": "✗",
    "corrupt": "≠",
    "inconclusive": "?",
    "void": "∅",
    "unsupported": "—",
    "not_run": "○",
    "deselected": "·",
    "over_budget": "·",
    "not_applicable": "—",
    "withheld": "○",
    "proven": "✓",
    "contradicted": "✗",
    "unknown": "?",
    "sound": "✓",
    "wrong": "≠",
    "comparable": "=",
    "unverified": "?",
    "not_comparable": "≠",
}

VERDICTS: Mapping[str, str] = {
    "pass": "Every check that applies passed.",
    "fail": "The engine crashed, hung or ran out of memory, or a check other than one of content failed.",
    "corrupt": "The output is wrong: it is not what the reference arm gives, rescoring finds tokens that the reference "
    "would not have said, or the checks of content failed.",
    "inconclusive": "The evidence does not decide: neither a pass nor a failure.",
    "void": "The launch says nothing about the engine (the runtime or the host failed); it is planned again.",
    "unsupported": "This cell cannot run here, for the reason given; it counts neither way.",
    "not_run": "Planned and not run, or not finished.",
    "deselected": "Left out by the selection.",
    "over_budget": "Left out because the time allowed does not reach.",
}

TERMS: Mapping[str, str] = {
    "cell": "One point of the matrix: budget with its top-k, graph mode, NVLS, and any control after a plus sign.",
    "launch": "One fresh start of the server, with its checks; also called an attempt.",
    "k of n": "k launches failed or were corrupt, of n that decided. Inconclusive and void launches are not in n.",
    "interval": "95 % Wilson interval of the probability that a fresh launch fails. Wide means few launches.",
    "acceptance": "Output tokens a verify step, with the token that prefill brings taken out: its floor is exactly 1. "
    "It says nothing about whether the text is right.",
    "server's own figure": "Acceptance as the server reports it, by its own way of counting.",
    "rescoring": "The last launch of a run reads every output again, as if the reference had said it, and tells of "
    "each token how far it lies below the reference's own choice.",
    "δ": "The gap in nats beyond which a token counts as one that the reference would not have said.",
    "healthy arms": "Launches believed right, whose share of tokens beyond δ is what the others are tested against.",
    "detection limit": "The smallest share of wrong tokens that would be found with 95 % power.",
    "self-test": "A fault planted where it must be found. If it is not, no pass and no corrupt output of the run is "
    "believed: they are inconclusive (oracle not trusted).",
    "vote": "Arms that answered the same prompts, and the one that differs from all the others while those agree. No "
    "arm is presumed right.",
    "degenerate": "Text that is broken whatever other arms say: loops from the start, one token over and over, "
    "invalid UTF-8. Two arms that agree on it do not pass.",
    "withheld": "A number that must not be compared, because the launch did not finish, its configuration was not "
    "proven or its content was not shown to be right.",
    "comparable": "All facts of the comparability key are known on both sides and equal.",
    "unverified": "Equal in all that both sides state; the facts listed are unknown. A difference is shown without a "
    "verdict.",
    "not comparable": "A fact differs, so the numbers stand side by side and no ratio is formed.",
    "open": "A hypothesis: an explanation that these launches do not tell from others, because the neighbouring cell "
    "was not run or so few launches may differ by chance (Fisher's exact test, 5 %). It begins with `That`.",
    "not tested": "Cells near the failure that no launch decided, with the reason: not run, void, unsupported, "
    "inconclusive, deselected.",
    "every budget that was run above b": "Each of them had a failing launch, as counted; nothing is said of others.",
    "planted": "A fault put in on purpose, to test the tool. It is not evidence about an engine.",
    "b16t8, c7, n8, ar": "Tree of budget 16 with top-k 8; flat chain of 7; NGRAM speculation of the width of b8; no "
    "speculation.",
    "graph, eager, verify-eager": "CUDA graphs on; all off; off for the decode phase alone.",
    "nvls, nonvls": "NVLink SHARP (reduction in the switch) requested, or not.",
}

ABOUT_A_FINDING: Mapping[str, str] = {"where": "scope", "not tested": "not_tested", "open": "hypotheses"}
"""What each line of a finding is called, and the field that holds it."""

PLANTED = "PLANTED FAULTS — a test of the tool, not evidence about an engine"
SELF_TEST = "A fault was planted in these launches to see whether it is found. They count in no cell."
NOT_A_GPU = "Nothing measured here is evidence about a GPU."

NUMBER_LABELS: Mapping[str, str] = {
    "acceptance": "acceptance (prefill token taken out)",
    "server_accept_length": "acceptance, the server's own figure",
    "verify_steps": "verify steps",
    "output_rate": "output rate",
    "output_rate_per_user": "output rate per request in flight",
    "output_rate_per_gpu": "output rate per GPU",
    "ttft_median": "time to first token, median",
    "ttft_p99": "time to first token, 99th percentile",
    "itl_median": "inter-token latency, median",
    "itl_p99": "inter-token latency, 99th percentile",
    "step_time": "time per verify step",
    "steps_per_request": "verify steps per request",
    "output_rate_steady": "output rate while all streams are busy",
    "output_rate_under_load": "output rate while requests join and leave",
    "ttft_median_under_load": "time to first token while requests join and leave, median",
    "requests_failed": "requests that failed",
    "bench_serving_output_rate": "output rate, as sglang.bench_serving states it",
    "bench_serving_ttft_median": "time to first token, median, as sglang.bench_serving states it",
    "bench_serving_ttft_p99": "time to first token, 99th percentile, as sglang.bench_serving states it",
    "bench_serving_itl_median": "inter-token latency, median, as sglang.bench_serving states it",
    "bench_serving_itl_p99": "inter-token latency, 99th percentile, as sglang.bench_serving states it",
    "bench_serving_acceptance": "acceptance, as sglang.bench_serving states it",
    "ready": "ready after",
    "gpu_power": "power a GPU, mean",
    "gpu_power_max": "power a GPU, highest",
    "outputs_equal": "outputs equal to the reference",
    "prompts_equal": "prompts equal in two passes of the reference",
    "smallest_wrong_concurrency": "smallest concurrency with a wrong output",
    "coding_correct": "coding tasks correct",
    "outputs_of_other_length": "outputs shorter or longer than the reference's",
    "degenerate_outputs": "prompts with degenerate text",
    "distinct_8grams": "distinct 8-grams, median share",
    "token_entropy": "token entropy, median",
    "compression_ratio": "compression ratio of the text, median",
    "invalid_utf8": "outputs with invalid UTF-8",
    "failure_share": "share of launches that failed",
}


def sign(word: str) -> str:
    """The sign of a state; empty for a word that has none."""
    return SIGNS.get(word, "")


def spoken(word: str) -> str:
    """A state or code as words: `not_run` -> `not run`."""
    return word.replace("_", " ")


def number_label(name: str) -> str:
    return NUMBER_LABELS.get(name, spoken(name))


def at_label(at: Mapping[str, int]) -> str:
    """The conditions of a number: `concurrency 128`; empty if it has none."""
    return ", ".join(f"{spoken(name)} {value}" for name, value in sorted(at.items()))


def figure(value: float | None) -> str:
    """A number in at most five significant digits, without an exponent for what is read here; a dash for None."""
    if value is None:
        return "—"
    if value == int(value) and abs(value) < 1e12:
        return str(int(value))
    return f"{value:.5g}" if abs(value) >= 1e-3 else f"{value:.2g}"


percent = shares.percent


def interval_label(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{percent(interval[0])} to {percent(interval[1])}"
