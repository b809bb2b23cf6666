"""Wire vectors: the very bytes that model servers send, each with what a good client makes of them.

Rules: an id begins with the number of its quirk: 01-21 bytes and framing, 22-34 events, 35-50 tool calls. A vector
with `by` is for that adapter of `tests/support/adapters.py` alone.
"""

from __future__ import annotations

from tests.support.wire_vectors.calls import CALLS
from tests.support.wire_vectors.events import EVENTS
from tests.support.wire_vectors.framing import FRAMING
from tests.support.wire_vectors.tags import TAGS
from tests.support.wire_vectors.text_calls import TEXT_CALLS

VECTORS = (*FRAMING, *EVENTS, *TAGS, *CALLS, *TEXT_CALLS)
