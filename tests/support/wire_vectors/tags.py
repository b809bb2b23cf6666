"""Tag vectors: thinking that stands in the text; 30."""

from __future__ import annotations

from typing import Any

from tests.support.wire_vectors.vector import HELLO, STOP, Vector, call, called, chunk, stream, vector


def _tags(name: str, *pieces: str, **want: Any) -> Vector:
    data = stream(*(chunk({"content": piece}) for piece in pieces), STOP)
    return vector(name, data, **{"finish": "stop", "by": "tags", **want})


TAGS = (
    _tags("30-tags-in-pieces", "<th", "ink>why</thi", f"nk>\n\n{HELLO}", text=HELLO, reasoning="why"),
    _tags("30-tags-after-space", f"\n<think>why</think>{HELLO}", text=HELLO, reasoning="why"),
    _tags("30-less-than", "a <", " b <think> c", text="a < b <think> c"),
    _tags("30-begins-like-a-tag", "<th", "ere>", text="<there>"),
    _tags("30-close-tag-only", "why\n</th", "ink>\n", HELLO, text=HELLO, reasoning="why\n"),
    _tags("30-close-tag-first", "</thi", f"nk>\n\n{HELLO}", text=HELLO),
    _tags("30-close-tag-after-a-word", "why</think", f">{HELLO}", text=HELLO, reasoning="why"),
    _tags("30-close-tag-before-a-line", "why. </think>", f"\n\n{HELLO}", text=HELLO, reasoning="why. "),
    _tags("30-close-tag-quoted", "write `</think>` last", text="write `</think>` last"),
    _tags(
        "30-tags-that-are-told-of",
        "Models write\n<think>\nso\n</th",
        "ink>\nand then",
        text="Models write\n<think>\nso\n</think>\nand then",
    ),
    _tags(
        "30-close-tag-in-a-fence",
        "Like so:\n``",
        "`\nwhy\n</think>\nwell\n```\n",
        text="Like so:\n```\nwhy\n</think>\nwell\n```\n",
    ),
    _tags("30-close-tag-in-words", "use </think> to end", text="use </think> to end"),
    _tags("30-never-closed", "<think>", HELLO, text=HELLO),
    vector(
        "30-never-closed-before-a-call",
        stream(chunk({"content": "<think>why"}), called(call("f", '{"x":1}')), STOP),
        reasoning="why",
        calls=(("f", {"x": 1}),),
        finish="tool-calls",
        by="tags",
    ),
    _tags("30-empty-tag", f"<think/>{HELLO}", text=HELLO),
    _tags("30-empty-tags", f"<think>\n\n</think>\n\n{HELLO}", text=HELLO, reasoning="\n\n"),
    vector(
        "30-off",
        stream(chunk({"content": "<think>why</think>so"}), STOP),
        text="<think>why</think>so",
        finish="stop",
        by="deepseek",
    ),
)
