"""Send letters and collect answers: ask silent silos again, and say why an answer is invalid."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from skdpfl._codec import WireError
from skdpfl.remote._declared import pack, unpack
from skdpfl.remote._letters import Answer, Ask, Done, End, Offer, Refusal, Waiting
from skdpfl.remote._socket import Courier
from skdpfl.remote._terms import Refused

#: seconds between two questions whether a person has said yes, and to wait for a silo's disk
_PAUSE, _BUSY = 5.0, 60.0


class SilosMissing(RuntimeError):
    """Silos did not answer, or gave an invalid answer; the text names them and the reasons."""

    def __init__(self, text: str, reasons: Mapping[str, str] | None = None) -> None:
        each = (f"{name}: {reason}" for name, reason in sorted((reasons or {}).items()))
        super().__init__(" ".join([text, *each]))


def exchange(
    courier: Courier,
    letters: Mapping[str, Offer | Ask | End | Done],
    kind: type,
    n_attempts: int,
    patience: float = 0.0,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return answers, and the reasons of silos without one; silent silos are asked again.

    If a person has to approve first, this waits up to ``patience`` seconds.
    """
    answers: dict[str, Any] = {}
    reasons = dict.fromkeys(letters, "no answer in time")
    written = {id(letter): pack(letter) for letter in letters.values()}
    waiting, attempts, begin = set(letters), 0, time.monotonic()
    while waiting and attempts < n_attempts:
        sent = {n: written[id(letter)] for n, letter in letters.items() if n in waiting}
        came, patient = courier.deliver(sent), 0.0
        for name in sorted(waiting & came.keys()):
            answer = _opened(came[name], kind, letters[name])
            if isinstance(answer, kind):
                answers[name] = answer
                del reasons[name]
            else:
                reasons[name] = answer.reason if isinstance(answer, Waiting) else str(answer)
            if isinstance(answer, Waiting):
                patient = max(patient, _BUSY if answer.busy else patience)
            if isinstance(answer, kind | Refused):  # it will not say anything else
                waiting.discard(name)
        if time.monotonic() - begin < patient:
            time.sleep(min(_PAUSE, patient))
        else:
            attempts += 1
    return answers, reasons


def _opened(data: bytes, kind: type, asked: Offer | Ask | End | Done) -> Any:
    """Return an answer, or the reason why it is invalid: a Refused if that is final."""
    try:
        letter: Any = unpack(data)
    except WireError as error:
        return f"an answer that cannot be read ({error})"
    if isinstance(letter, Refusal):
        return Refused(letter.reason.rstrip())
    if isinstance(letter, Waiting) and letter.fit == asked.fit:
        return letter
    if not isinstance(letter, kind) or getattr(letter, "fit", "") != asked.fit:
        return "an answer to something else"
    both = isinstance(letter, Answer) and isinstance(asked, Ask)
    return _checked(letter, asked) if both else letter  # type: ignore[arg-type]


def _checked(answer: Answer, ask: Ask) -> Any:
    """Return an answer, or the reason why it does not answer this question."""
    if (answer.purpose, answer.number) != (ask.purpose, ask.number):
        return f"an answer to {answer.purpose} {answer.number}, not {ask.purpose} {ask.number}"
    values = answer.values
    kind = "f" if ask.part is None else "i"  # masked: whole numbers
    if values.ndim != 1 or values.dtype.kind != kind or not np.isfinite(values).all():
        return "an answer that is not a vector of finite numbers"
    if answer.names is not None and sum(map(len, answer.names)) != values.size:
        return "an answer whose names do not match its numbers"
    return answer


def odd_ones(answers: dict[str, Any]) -> dict[str, str]:
    """Return the silos whose answers differ in length from most."""
    if all(answer.names is not None for answer in answers.values()):
        return {}  # each silo names what it found
    widths = [answer.values.size for answer in answers.values()]
    usual = max(set(widths), key=widths.count, default=0)
    odd = [name for name, answer in answers.items() if answer.values.size != usual]
    return dict.fromkeys(odd, "an answer whose length differs from the others'")
