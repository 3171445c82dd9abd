"""The errors that a person can put right."""


class InputError(ValueError):
    """Something that was typed, pasted, uploaded or chosen cannot be used.

    The message is complete as it stands: what was wrong, what is allowed, what to do. `field` names the input it belongs
    to ("text", "query", "key", "value", "mask", "bias", "model" ...), so that a page can show it beside that input.
    """

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class WeightsOnlyError(InputError):
    """The architecture does not expose queries, keys and values, so no stage before the weights can be shown."""


def shortened(text: str, longest: int = 80) -> str:
    """Of what somebody typed, as much as a message can hold."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
