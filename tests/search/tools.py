"""A small catalogue, made by hand."""

from __future__ import annotations

from typing import TypeVar

from trunkline.search.index import Index
from trunkline.search.text import ToolText

AnyIndex = TypeVar("AnyIndex", bound=Index)

TOOLS = (
    ToolText(
        "github/createPullRequest", "createPullRequest", "github GitHub", description="Open a PR on a repository."
    ),
    ToolText("github/list_issues", "list_issues", "github GitHub", description="List the issues of a repository."),
    ToolText("github/add-comment", "add-comment", "github GitHub", description="Comment on an issue of github."),
    ToolText("mail/send_email", "send_email", "mail", description="Send a message.", parameters="to subject body"),
    ToolText("mail/search_mail", "search_mail", "mail", description="Search the mailbox for messages."),
    ToolText("files/write_file", "write_file", "files", description="Write text to a file.", parameters="path content"),
    ToolText("files/read_file", "read_file", "files", description="Read a file.", parameters="path"),
    ToolText("weather/get_forecast", "get_forecast", "weather", description="Weather forecast for a city."),
    ToolText("charts/bar_chart", "generate_bar_chart", "charts", description="Draw a bar chart from numbers."),
    ToolText("calendar/黄历", "almanac", "calendar", description="查询黄道吉日和农历日期"),
)


def filled(index: AnyIndex) -> AnyIndex:
    for tool in TOOLS:
        index.add(tool)
    return index
