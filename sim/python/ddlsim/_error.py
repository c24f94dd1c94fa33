"""What ddlsim says instead of an answer."""

from __future__ import annotations

import re


class Error(Exception):
    """A question without an answer: what was wrong, where, and what would have been right.

    message   the command's own words
    code      'parse', 'invalid-argument', 'not-found', 'unsupported', 'infeasible', 'io' or 'out-of-time'
    file, line, column   the place, where the input had one; else None
    notes     what would have been right, in words
    choices   the valid names that a note lists, nearest first; empty where there are none
    also      other faults of the same input, each an Error
    """

    def __init__(self, message, code="invalid-argument", file=None, line=None, column=None, notes=(), also=()):
        super().__init__(message)
        self.message = message
        self.code = code
        self.file = file
        self.line = line
        self.column = column
        self.notes = tuple(notes)
        self.also = tuple(also)

    @property
    def choices(self):
        for note in self.notes:
            if note.startswith("did you mean "):
                return tuple(re.findall(r"'([^']*)'", note))
            listed = re.match(r"(?:valid|units|models|nodes): (.*)", note)
            if listed:
                return tuple(name for name in listed.group(1).split(", ") if not name.startswith("..."))
        return ()

    def __str__(self):
        place = self.file or ""
        for number in (self.line, self.column):
            place += f":{number}" if place and number else ""
        lines = [f"{place}: {self.message}" if place else self.message]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines + [str(one) for one in self.also])

    def __reduce__(self):
        return (type(self), (self.message, self.code, self.file, self.line, self.column, self.notes, self.also))
