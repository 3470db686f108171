"""The lines that a diagnosis quotes and names: its own, and those of other processes that notice the failure."""

from __future__ import annotations

from vdiag.model import Evidence, Input, Role
from vdiag.reason.blame import Blame, Node

MOST_TEXT = 2000  # characters quoted of one line


def quoted(node: Node, inputs: list[Input]) -> Evidence:
    """A node's line as evidence; a wording that goes on over several rows is quoted whole."""
    event = node.event
    row = event.lines.index(node.line) if node.line in event.lines else event.root_row
    text = event.rows[row].strip()
    if node.match is not None and node.match.span[1] > sum(len(r) + 1 for r in event.rows[: row + 1]):
        end = event.text.count("\n", 0, node.match.span[1])
        text = " ".join(r.strip() for r in event.rows[row : min(end, row + 6) + 1])
    return Evidence(inputs[event.source].name, node.line, event.envelope.lane, text[:MOST_TEXT])


def evidence_of(node: Node, blame: Blame, inputs: list[Input]) -> list[Evidence]:
    """The root line, then up to two lines of other processes that notice the failure."""
    rows = [quoted(node, inputs)]
    envelope = node.event.envelope
    later = [
        n for n in later_of(node, blame) if n.event.envelope.role and n.event.envelope.lane != envelope.lane
    ]
    notices = [n for n in later if n.rule is not None and n.rule.role in (Role.TRAILER, Role.SYMPTOM)]
    rows += [quoted(n, inputs) for n in notices[:2]]
    return rows


def later_of(node: Node, blame: Blame) -> list[Node]:
    """What a root explains: consequences and the lines that notice the failure, each line once."""
    seen = {(node.event.source, node.line)}
    nodes = []
    for other in sorted([*blame.explained, *blame.notices], key=lambda n: (n.event.source, n.line)):
        key = (other.event.source, other.line)
        if key not in seen:
            seen.add(key)
            nodes.append(other)
    return nodes


def other_than(source: int, diagnosis: int, inputs: list[Input]) -> str:
    """The name of an input that is not the diagnosis's own."""
    return inputs[source].name if source != diagnosis else ""
