"""WP29 Opinion 05/2014 on anonymisation techniques: singling out, linkability and inference.

The Opinion names no number. What it says by itself, such as "isolate some or all records", is a threshold of guidance;
how likely a conclusion must be is our default.
"""

from __future__ import annotations

from dataclasses import replace

from sqlanon.families import names_with_trait
from sqlanon.verdict.criteria import Criterion, Judgement, Regulation, decide, met, not_assessed, not_met
from sqlanon.verdict.release_facts import AttackResult, ReleaseFacts

CERTAIN = names_with_trait("attacks", "certain")
LIKELY = names_with_trait("attacks", "likely")
LEARNING = (*LIKELY, *names_with_trait("attacks", "informed"))
MOST_LINKED = 0.2


def _singling_out(facts: ReleaseFacts) -> Judgement:
    if facts.chances is None or facts.chances.uniques is None:
        return not_assessed(facts.why("chances"))
    alone = facts.chances.uniques
    crowd = f"the smallest class has {facts.chances.smallest:,}"
    return decide(alone == 0, f"{alone:,} {facts.chances.counts} alone in their class; {crowd}")


def _linked_rows(facts: ReleaseFacts) -> Judgement:
    if facts.pseudonyms:
        return not_met(f"a pseudonym links all rows of a person: {', '.join(facts.pseudonyms)}")
    if facts.linked:
        return not_met(f"rows of a person are linked by {', '.join(facts.linked)}")
    if not facts.risks:
        return not_assessed(facts.why("risks"))
    if facts.policy.person is None:
        return not_assessed("the policy names no person: whether rows belong together is not known")
    return met("no column links the rows of a person")


def _linked_register(facts: ReleaseFacts) -> Judgement:
    found = facts.results_of("linkage")
    judged = [item for item in found if item.why is None and item.confidence is not None]
    if not judged:
        return not_assessed(found[0].why or facts.why("attacks") if found else facts.why("attacks"))
    surest = max(item.confidence or 0.0 for item in judged)
    return decide(surest <= MOST_LINKED + 1e-12, f"the surest link of a listed person to a record: {surest:.4f}")


def _linked_releases(facts: ReleaseFacts) -> Judgement:
    if facts.others is None:
        return not_assessed("no record tells what else was released of this source")
    if not facts.others:
        return met("the record has no other release of this source")
    if facts.policy.history is not None and facts.evidence is not None and facts.evidence.history is not None:
        return decide(facts.evidence.verdict is True, "the policy has a history, which was measured across releases")
    return not_assessed(
        f"{len(facts.others)} other release{'s' if len(facts.others) > 1 else ''} of this source: compare them with "
        "'sqlanon attack --other'"
    )


def judge_attacks(facts: ReleaseFacts, names: tuple[str, ...], needed: tuple[str, ...]) -> Judgement:
    """Whether attacks on sensitive values break nobody. Those that are `needed` must be judged for each sensitive
    column; the others count where they could be tried."""
    if not facts.policy.sensitive:
        return not_assessed("the policy names no sensitive column: what must not be inferred is not known")
    if facts.attacks is None:
        return not_assessed(facts.why("attacks"))
    found = facts.results_of(*names)
    judged = [item for item in found if item.why is None]
    broken = [item for item in judged if item.broken]
    if broken:
        return not_met("; ".join(_says(item) for item in broken))
    done = {(item.name, item.attribute) for item in judged}
    lacking = [name for name in needed if any((name, each) not in done for each in facts.policy.sensitive)]
    if lacking:
        reasons = [f"{item.title}: {item.why}" for item in found if item.why is not None and item.name in lacking]
        return not_assessed("; ".join(reasons) or f"{', '.join(lacking)} was not judged")
    surest = max(item.confidence or 0.0 for item in judged)
    tried = ", ".join(dict.fromkeys(item.name for item in judged))
    return met(f"nobody broken by {tried}; the surest conclusion {surest:.4f}{_guesses(facts)}")


def _judge_likely(facts: ReleaseFacts) -> Judgement:
    """The attacks that learn or know more. An advantage over a control group is a finding, since the release tells it
    about its own persons; one over the margins is shown, and may be what the release tells about anybody."""
    judged = judge_attacks(facts, LEARNING, LIKELY)
    found = facts.advantages_of(*LEARNING, *CERTAIN)
    if not found:
        return judged
    largest = max(found, key=lambda item: item.advantage)
    over = "a control group" if any(item.over_control for item in found) else "the margins, without a control group"
    measured = f"{judged.measured}; largest advantage over {over}: {largest}"
    findings = [item for item in found if item.over_control and item.finding]
    if findings:
        return not_met(f"{measured}; findings: {', '.join(map(str, findings))}")
    return replace(judged, measured=measured)


def _says(item: AttackResult) -> str:
    return f"{item.title} breaks {item.broken:,} of {item.targets:,}"


def _guesses(facts: ReleaseFacts) -> str:
    told = [(name, facts.disclosure(name)) for name in facts.policy.sensitive]
    shown = [
        f"{name} guessed rightly {given[0]:.1%}, without the classes {given[1]:.1%}" for name, given in told if given
    ]
    return f"; {'; '.join(shown)}" if shown else ""


WP29 = Regulation(
    ident="wp29",
    title="WP29 Opinion 05/2014 on anonymisation techniques",
    note="Three risks that an anonymisation technique is examined for. Not a finding that data are anonymous.",
    criteria=(
        Criterion(
            "wp29.singling_out",
            "Singling out",
            "WP216, sections 3 and 3.2.1",
            "records that are alone in their class of quasi-identifiers",
            "0",
            "guidance",
            _singling_out,
        ),
        Criterion(
            "wp29.linkability_rows",
            "Linkability within the release",
            "WP216, sections 3 and 4",
            "columns, pseudonyms too, that link the rows of a person",
            "0",
            "guidance",
            _linked_rows,
        ),
        Criterion(
            "wp29.linkability_register",
            "Linkability with a register",
            "WP216, section 3",
            "how surely a join on all quasi-identifiers finds the record of a person",
            f"at most {MOST_LINKED}",
            "our default",
            _linked_register,
        ),
        Criterion(
            "wp29.linkability_releases",
            "Linkability across releases",
            "WP216, section 3",
            "other releases of the same source, or a history that holds across them",
            "no other release, or a history that holds",
            "our default",
            _linked_releases,
        ),
        Criterion(
            "wp29.inference_certain",
            "Inference with certainty",
            "WP216, sections 3 and 3.2.2",
            f"persons whose sensitive value all matching records share ({', '.join(CERTAIN)})",
            "0",
            "guidance",
            lambda facts: judge_attacks(facts, CERTAIN, CERTAIN),
        ),
        Criterion(
            "wp29.inference_likely",
            "Inference with significant probability",
            "WP216, sections 3 and 3.2.2",
            f"persons whom attacks that learn or know more break ({', '.join(LEARNING)}), and the "
            "advantage of all attacks on values over a control group",
            "0 at the default certainty of each attack; no advantage above 5 %",
            "our default",
            _judge_likely,
        ),
    ),
)  # fmt: skip
