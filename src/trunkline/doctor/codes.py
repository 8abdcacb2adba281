"""Everything the doctor can find, by its code; `docs/doctor.md` has a section for each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Something does not work."""
    WARNING = "warning"
    """It works, but not as it should."""
    NOTE = "note"
    """Good to know; nothing is wrong."""


DOCUMENT = "docs/doctor.md"

CODES: Mapping[str, str] = {
    # The configuration.
    "TL101": "Nothing is configured",
    "TL102": "The configuration file is broken",
    "TL103": "An option does not exist",
    "TL104": "A server has no address",
    "TL105": "A value cannot be used",
    "TL106": "A variable or a secret is not set",
    "TL107": "A placeholder was left in",
    "TL108": "The configuration file cannot be read",
    # Servers that are programs.
    "TL201": "A runtime is missing",
    "TL202": "The command was not found",
    "TL203": "A path leads nowhere",
    "TL204": "The program cannot be executed",
    "TL205": "The package does not exist",
    "TL206": "The program ends at once",
    "TL207": "The program prints what is not MCP",
    "TL208": "The program starts, and says nothing",
    "TL209": "The program is still being downloaded",
    "TL210": "The runtime is too old",
    "TL211": "A part of the program is not installed",
    "TL212": "Docker does not run",
    "TL213": "The package index cannot be reached",
    # Servers that are remote.
    "TL301": "The host name is unknown",
    "TL302": "Nothing listens there",
    "TL303": "The address does not answer",
    "TL304": "The certificate is not trusted",
    "TL305": "The certificate is expired, or not valid yet",
    "TL306": "The certificate is for another host",
    "TL307": "TLS does not work",
    "TL308": "The path is wrong",
    "TL309": "The transport is wrong",
    "TL310": "A web page is there, not MCP",
    "TL311": "The server wants authorization",
    "TL312": "The credentials are refused",
    "TL313": "The server redirects elsewhere",
    "TL314": "The server fails, or is overloaded",
    "TL315": "The answer is not MCP",
    "TL316": "The clock is wrong",
    # What servers offer.
    "TL401": "The server speaks another revision",
    "TL402": "A list cannot be read",
    "TL403": "A list does not end",
    "TL404": "Tools are hidden by their names",
    "TL405": "A tool's schema cannot be used",
    "TL406": "A client has another server of this name",
    # The gateway, and its home.
    "TL501": "The port is taken",
    "TL502": "Trunkline runs already",
    "TL503": "Trunkline would be open to everyone",
    "TL504": "A token is not safe",
    "TL505": "The home folder cannot be used",
    "TL506": "Others can read or change what is private",
    "TL507": "The key is broken",
    "TL508": "A catalogue is corrupt",
    "TL509": "A catalogue is out of date",
}
