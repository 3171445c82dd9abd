"""The start page: finished views, each a card that opens it."""
