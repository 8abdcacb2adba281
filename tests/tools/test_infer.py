"""What tools do is told from their words, and a doubt is never called safe."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.tools.annotations import get_tool_safety_level, is_safe_to_retry, validate_annotations
from trunkline.tools.infer import infer
from trunkline.tools.signs import split_name
from trunkline.tools.verbs import VERBS, Effect, Form


def schema(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


READERS = [
    ("getUser", "Get a user by id"),
    ("get_user", ""),
    ("HTTPGet", ""),
    ("registry_repository_list", "Lists the repositories of a registry."),
    ("ha_config_get_automation", "Retrieve the configuration of an automation."),
    ("get_update_status", "Get the status of an update"),
    ("list_merge_requests", "List merge requests"),
    ("list_deleted_items", "List deleted items"),
    ("list_add_requests", "Gets all requests to add workspaces to the network."),
    ("search_index_get", "Get one index of the search service."),
    ("file_read", "Read a file"),
    ("repository_status", "Shows the state of the working tree"),
    ("commands", "This tool returns the commands that can be used."),
    ("web_search", "Performs a web search and returns the results."),
    ("records", "Use this tool to find records."),
    ("get_file_info", "Retrieve the metadata of a file. Does not delete or modify anything."),
    ("processes", "Lists processes; never kills them."),
    ("permissions", "List the set of permissions of an item."),
    ("database_query", "Executes a read-only SQL query against the database."),
    ("read_query", "Execute a SELECT query on the database"),
    ("deploy_logs_get", "Shows the logs of deployed applications."),
]


@pytest.mark.parametrize(("name", "description"), READERS)
def test_a_tool_that_only_reads_is_safe(name: str, description: str) -> None:
    found = infer(name, description)

    assert found.annotations.read_only_hint is True
    assert found.annotations.destructive_hint is False
    assert found.annotations.idempotent_hint is True


DESTROYERS = [
    ("deleteUser", "Delete a user account permanently"),
    ("deletes_user", ""),
    ("users", "Deletes a user"),
    ("users", "Removed items are gone for ever"),
    ("users", "A tool for deleting users"),
    ("users", "This tool will permanently delete a user."),
    ("DROPTABLE", ""),
    ("HTTPDelete", ""),
    ("rm", ""),
    ("kill_process", "Terminate a process by its number"),
    ("unlink_account", ""),
    ("package_uninstall", ""),
    ("terminate_instance", ""),
    ("revoke_key", ""),
    ("cancel_order", ""),
    ("shut_down_server", ""),
    ("getAndDelete", ""),
    ("get_and_delete", "Get a record"),
    ("fetch_inbox", "Fetch unread mail and delete it"),
    ("rules", "Create, update, and delete alert rules."),
]


@pytest.mark.parametrize(("name", "description"), DESTROYERS)
def test_a_tool_that_destroys_is_dangerous_and_asks_first(name: str, description: str) -> None:
    found = infer(name, description).annotations

    assert found.read_only_hint is not True
    assert found.destructive_hint is True
    assert found.requires_confirmation is True
    assert get_tool_safety_level(found) == "dangerous"
    assert not is_safe_to_retry(found)


WRITERS = [
    ("create_issue", "Create an issue in the tracker so you can get its id"),
    ("send_email", "Send an email. Check the recipient first"),
    ("transfer_funds", "Transfer funds; view balance after"),
    ("pay_invoice", ""),
    ("overwrite_file", ""),
    ("mailing_list_add", "Adds a member to the mailing list"),
    ("list_add", ""),
    ("search_and_replace", "Search and replace text in a file"),
    ("get_or_create_user", "Get a user, or make one"),
    ("look_and_burn", "Look at it, and burn it"),
    ("createorupdate", ""),
    ("read_write", ""),
    ("mark_all_notifications_read", "Mark all notifications as read"),
    ("check_in_guest", ""),
    ("git_fetch", ""),
    ("inbox", "Reads the inbox and marks everything as read"),
    ("speech", "Convert text to speech. Saves the file to a directory."),
    ("confirm_order", "Confirm an order"),
]


@pytest.mark.parametrize(("name", "description"), WRITERS)
def test_a_tool_that_writes_is_not_read_only(name: str, description: str) -> None:
    found = infer(name, description).annotations

    assert found.read_only_hint is False
    assert get_tool_safety_level(found) != "safe"


DOUBTS = [
    ("execute_sql", "Execute SQL. Use it to query or modify data"),
    ("sql", "Execute SQL. Use it to query or modify data"),
    ("run_query", "Run a query"),
    ("db_query", "Executes a query against the database"),
    ("graphql", "Send a GraphQL query to the API"),
    ("frobnicate_issue", "Frobnicates an issue. Returns the issue as it is now."),
    ("frobnicate_thing", "Frobnicates a thing. Gets back the thing as it is now."),
    ("get_report", "Creates a report"),
    ("generate_image", "Generate an image"),
    ("take_snapshot", "Take a snapshot"),
    ("thing", ""),
    ("", ""),
    ("🙂", "🙂"),
    ("return_item", "Return an item that you bought"),
]


@pytest.mark.parametrize(("name", "description"), DOUBTS)
def test_a_doubt_is_never_safe(name: str, description: str) -> None:
    found = infer(name, description).annotations

    assert found.read_only_hint is not True
    assert found.idempotent_hint is not True
    assert get_tool_safety_level(found) != "safe"


def test_what_is_denied_does_not_count() -> None:
    found = infer("write_file", "Write a file. Does not delete anything").annotations

    assert found.read_only_hint is False
    assert found.destructive_hint is not True


def test_a_warning_to_the_reader_is_no_promise() -> None:
    found = infer("write_file", "Write a file. Do not overwrite what you need.").annotations

    assert found.destructive_hint is True


def test_an_update_is_destructive_and_idempotent_yet_asks_nobody() -> None:
    found = infer("updateUser", "Update a user").annotations

    assert (found.destructive_hint, found.idempotent_hint, found.requires_confirmation) == (True, True, False)
    assert get_tool_safety_level(found) == "moderate"
    assert is_safe_to_retry(found)


def test_adding_says_nothing_about_destroying() -> None:
    assert infer("create_user", "Create a user").annotations.destructive_hint is None


def test_a_deletion_is_idempotent_only_if_it_says_so() -> None:
    assert infer("delete_disk", "Deletes a disk.").annotations.idempotent_hint is None
    assert infer("delete_disk", "Deletes a disk. This is not idempotent.").annotations.idempotent_hint is None
    assert infer("delete_disk", "Deletes a disk. This operation is idempotent.").annotations.idempotent_hint is True


@pytest.mark.parametrize("argument", ["sql", "command", "script", "statement", "cmd"])
def test_an_argument_that_can_say_anything_is_never_safe(argument: str) -> None:
    given_one = schema(**{argument: {"type": "string"}})

    assert infer("get_data", "Get data", given_one).annotations.read_only_hint is None
    assert infer("execute", "", given_one).annotations.destructive_hint is True


def test_a_query_argument_is_doubted_when_its_language_can_write() -> None:
    sql = schema(query={"type": "string", "description": "The SQL to run"})
    words = schema(query={"type": "string", "description": "Words to look for"})

    assert infer("find_rows", "Find rows", sql).annotations.read_only_hint is None
    assert infer("find_rows", "Find rows. Read-only queries.", sql).annotations.read_only_hint is True
    assert infer("find_rows", "Find rows", words).annotations.read_only_hint is True
    assert infer("explain_statement", "Explain a statement", sql).annotations.read_only_hint is True


def test_an_action_to_choose_counts_as_its_worst_choice() -> None:
    actions = schema(action={"enum": ["list", "get", "deleteRow"]})
    filters = schema(action={"enum": ["assigned", "merge"], "description": "Filter by action"})

    assert infer("rows", "Get rows", actions).effect is Effect.DESTROYS
    assert infer("list_rows", "List rows", filters).effect is Effect.READS


def test_a_reader_that_can_save_to_a_file_is_doubted() -> None:
    saving = schema(filePath={"type": "string", "description": "Where to save the body to"})
    reading = schema(filePath={"type": "string", "description": "The file to look at"})

    assert infer("get_request", "Get a request", saving).annotations.read_only_hint is None
    assert infer("get_request", "Get a request", schema(output_dir={})).annotations.read_only_hint is None
    assert infer("get_request", "Get a request", reading).annotations.read_only_hint is True


def test_a_writer_that_wants_consent_is_dangerous() -> None:
    found = infer("send_mail", "Send a message", schema(confirm={"type": "boolean"})).annotations

    assert (found.destructive_hint, found.requires_confirmation) == (True, True)
    assert infer("get_mail", "Get a message", schema(confirm={})).annotations.read_only_hint is None


@pytest.mark.parametrize(
    "broken", [{}, {"properties": None}, {"properties": {"sql": True}}, {"properties": {"action": {"enum": 3}}}]
)
def test_a_broken_schema_is_borne(broken: dict[str, Any]) -> None:
    assert infer("delete_user", "", broken).annotations.destructive_hint is True


def test_the_network_is_known_by_its_words() -> None:
    assert infer("web_search", "Search the web").annotations.open_world_hint is True
    assert infer("get_page", "Get a page", schema(url={"type": "string"})).annotations.open_world_hint is True
    assert infer("get_user", "Get a user").annotations.open_world_hint is None


@pytest.mark.parametrize(
    ("name", "description", "complexity"),
    [
        ("get_user", "Get a user", "simple"),
        ("get_user", "Get a user " + "by many words " * 10, "medium"),
        ("analyze_logs", "", "complex"),
        ("report", "Generates a report", "complex"),
        ("process_order", "", "complex"),
        ("kill_process", "Kill a process", "simple"),
    ],
)
def test_complexity_follows_the_work_and_the_length(name: str, description: str, complexity: str) -> None:
    assert infer(name, description).annotations.complexity == complexity


def test_an_inference_says_by_which_words() -> None:
    found = infer("users_delete", "Removes a user and saves a log.", schema(confirm={}))

    assert found.evidence == (
        "The name says 'delete'.",
        "The description says 'removes'.",
        "The description also says 'saves'.",
        "The argument 'confirm' asks for consent.",
    )
    assert found.confidence > infer("thing", "").confidence


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getHTTPUrl", ["get", "http", "url"]),
        ("delete.user", ["delete", "user"]),
        ("read-file/all", ["read", "file", "all"]),
        ("DELETE_USER", ["delete", "user"]),
        ("droptables", ["drop", "tables"]),
        ("createorupdate", ["create", "or", "update"]),
        ("forget", ["forget"]),
        ("dropbox", ["dropbox"]),
        ("settings", ["settings"]),
    ],
)
def test_names_are_split_into_words(name: str, words: list[str]) -> None:
    assert split_name(name) == words


@pytest.mark.parametrize(
    ("word", "lemma", "form"),
    [
        ("deletes", "delete", Form.THIRD),
        ("deleting", "delete", Form.GERUND),
        ("dropped", "drop", Form.PAST),
        ("cancelled", "cancel", Form.PAST),
        ("canceled", "cancel", Form.PAST),
        ("modifies", "modify", Form.THIRD),
        ("destroyed", "destroy", Form.PAST),
        ("sent", "send", Form.PAST),
        ("put", "put", Form.BASE),
        ("purges", "purge", Form.THIRD),
    ],
)
def test_verbs_are_known_in_every_form(word: str, lemma: str, form: Form) -> None:
    assert (VERBS[word].lemma, VERBS[word].form) == (lemma, form)


@given(
    st.lists(st.sampled_from(["get", "list", "and", "or", "user", "delete", "update", "as", "read", "run", "x"])),
    st.lists(
        st.sampled_from(["Get", "deletes", "and", "not", "the", ".", ",", "user", "returns", "this", "read-only"])
    ),
)
def test_no_words_make_an_inference_contradict_itself(name: list[str], description: list[str]) -> None:
    found = infer("_".join(name), " ".join(description)).annotations

    assert validate_annotations(found) == []
    assert not (found.read_only_hint and found.requires_confirmation)


@pytest.mark.parametrize(
    ("name", "description", "arguments", "evidence"),
    [
        ("get_current_time", "", (), "The name says 'current', which changes by itself."),
        ("pick_card", "Picks a random card.", (), "The description says 'random', which changes by itself."),
        ("list_branches", "", ("repo_path",), "'repo_path' is about files, which others change."),
        ("directory_tree", "", (), "'directory' is about files, which others change."),
        ("get_user", "Get a user by id.", ("id",), ""),
        ("search_papers", "Search for papers by title.", ("query",), ""),
        ("list_countries", "Lists all countries.", (), ""),
    ],
)
def test_what_changes_by_itself_is_told_with_its_evidence(
    name: str, description: str, arguments: tuple[str, ...], evidence: str
) -> None:
    found = infer(name, description, {"properties": {argument: {"type": "string"} for argument in arguments}})

    assert found.annotations.volatile_hint is bool(evidence)
    assert not evidence or found.evidence[-1] == evidence


@pytest.mark.parametrize(
    "said",
    [
        "It cannot be undone.",
        "This can't be reversed.",
        "The record can not be recovered.",
        "Irreversible.",
        "Gone permanently.",
    ],
)
def test_what_cannot_be_undone_is_destructive_whatever_its_verb(said: str) -> None:
    plain, told = infer("send_invoice", "Sends an invoice."), infer("send_invoice", f"Sends an invoice. {said}")

    assert plain.annotations.destructive_hint is not True
    assert told.annotations.destructive_hint is True
    assert "The description says that it cannot be undone." in told.evidence
