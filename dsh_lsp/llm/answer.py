"""Answer: the frames of one answer become the events that a decoder reads.

Rules: an error inside an answer is raised as what it is; what follows the server's own end is no part of the answer;
a last frame that is cut short is no event, and the decoder says what that means.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from dsh_lsp.errors import LlmError, LlmFailure
from dsh_lsp.llm.error_reports import ErrorReport, report_in_stream
from dsh_lsp.llm.event_stream import Frame
from dsh_lsp.llm.failures import Faults, failure_from
from dsh_lsp.messages import Chunk
from dsh_lsp.wire import JsonObject

DONE = "[DONE]"


class Decoder(Protocol):
    """One answer: is fed its JSON events in order, those together that came together, and then is ended once.

    `known`: an event of its protocol has come. `started`: something of the answer has. `complete`: the answer is, and
    at most what it cost is still to come. `over`: nothing more comes.
    """

    @property
    def known(self) -> bool: ...  # noqa: D102 - see above
    @property
    def started(self) -> bool: ...  # noqa: D102
    @property
    def complete(self) -> bool: ...  # noqa: D102
    @property
    def over(self) -> bool: ...  # noqa: D102
    def feed_all(self, events: Iterable[JsonObject]) -> Iterator[Chunk]: ...  # noqa: D102
    def end(self, *, done: bool) -> Iterator[Chunk]: ...  # noqa: D102
    def fail(self, failure: LlmFailure) -> Iterator[Chunk]: ...  # noqa: D102


@dataclass(slots=True)
class FrameReader:
    """Reads the frames of one answer as JSON events; `done` once the server has said that it is."""

    host: str
    faults: Faults
    done: bool = False
    _broken: bool = False

    def read(self, frames: Iterable[Frame]) -> Iterator[JsonObject | None]:
        """Give their events, and None in the place of `[DONE]`.

        Raises:
            LlmError: the server reports an error, or a frame before the last is no event.
        """
        for frame in frames:
            if self._broken:
                message = f"{self.host} broke its answer with an event that is not a JSON object"
                raise LlmError(LlmFailure(message=message, code="STREAM_CLOSED"))
            if frame.data.strip() == DONE:
                self.done = True
                yield None
                return
            event = _object_of(frame.data)
            told = (event is not None and "error" in frame.data) or frame.event == "error"
            report = report_in_stream(frame.event, event) if event is not None and told else None
            if event is None and frame.event == "error" and not frame.data.lstrip().startswith("{"):
                report = ErrorReport(message=frame.data, in_stream=True)
            if report is not None:
                raise LlmError(failure_from(report, host=self.host, faults=self.faults))
            if event is None:
                self._broken = True  # if it is the last one, the stream was cut and the decoder says so
            else:
                yield event


_decode = json.JSONDecoder().decode


def json_of(text: str) -> Any:
    """Decode JSON; text that is none stays text."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return text


def _object_of(text: str) -> JsonObject | None:
    """Decode a JSON object, also one wrapped in a list, as some gateways send errors."""
    value = json_of(text)
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, dict) else None
