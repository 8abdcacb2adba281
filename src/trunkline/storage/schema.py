"""The store's schema as numbered steps, taken by one migrator however many start at once."""

from __future__ import annotations

from trunkline.errors import StoreError
from trunkline.storage.engine import Engine, Session

STEPS: tuple[str, ...] = (
    # 1: people and their keys, what belongs to them (servers, threads), and the news of each change
    """
    CREATE TABLE settings (name TEXT PRIMARY KEY, value {bytes} NOT NULL);
    CREATE TABLE users (
        name TEXT PRIMARY KEY,
        role TEXT NOT NULL,
        limits TEXT NOT NULL,
        version BIGINT NOT NULL,
        created BIGINT NOT NULL,
        updated BIGINT NOT NULL
    );
    CREATE TABLE keys (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
        label TEXT NOT NULL,
        digest {bytes} NOT NULL,
        rights TEXT NOT NULL,
        created BIGINT NOT NULL,
        expires BIGINT NOT NULL
    );
    CREATE INDEX keys_owner ON keys (owner);
    CREATE TABLE documents (
        noun TEXT NOT NULL,
        owner TEXT NOT NULL,
        name TEXT NOT NULL,
        content TEXT NOT NULL,
        sealed {bytes} NOT NULL,
        version BIGINT NOT NULL,
        created BIGINT NOT NULL,
        updated BIGINT NOT NULL,
        PRIMARY KEY (noun, owner, name)
    );
    CREATE TABLE changes (
        revision {serial},
        noun TEXT NOT NULL,
        owner TEXT NOT NULL,
        name TEXT NOT NULL
    );
    """,
    # 2: what was used of a budget
    """
    CREATE TABLE spent (
        owner TEXT NOT NULL,
        thread TEXT NOT NULL,
        unit TEXT NOT NULL,
        since BIGINT NOT NULL,
        amount DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (owner, thread, unit)
    );
    """,
    # 3: credentials as sealed records, and the keys that they are sealed with, wrapped by the master key
    """
    CREATE TABLE data_keys (
        kid TEXT NOT NULL,
        master TEXT NOT NULL,
        wrapped {bytes} NOT NULL,
        created BIGINT NOT NULL,
        PRIMARY KEY (kid, master)
    );
    CREATE TABLE credentials (
        owner TEXT NOT NULL,
        server TEXT NOT NULL,
        issuer TEXT NOT NULL,
        field TEXT NOT NULL,
        kid TEXT NOT NULL,
        record {bytes} NOT NULL,
        disabled BIGINT NOT NULL,
        updated BIGINT NOT NULL,
        PRIMARY KEY (owner, server, issuer, field)
    );
    CREATE INDEX credentials_kid ON credentials (kid);
    """,
    # 4: sign-ins under way, and who of all processes does something alone
    """
    CREATE TABLE sign_ins (
        state TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        server TEXT NOT NULL,
        issuer TEXT NOT NULL,
        until BIGINT NOT NULL,
        outcome TEXT NOT NULL,
        used BIGINT NOT NULL
    );
    CREATE TABLE leases (
        name TEXT PRIMARY KEY,
        holder TEXT NOT NULL,
        until BIGINT NOT NULL
    );
    """,
    # 5: browsers that are signed in to the console
    """
    CREATE TABLE console_sessions (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
        key_id TEXT NOT NULL,
        issued TEXT NOT NULL,
        created BIGINT NOT NULL,
        seen BIGINT NOT NULL,
        digest {bytes} NOT NULL
    );
    CREATE INDEX console_sessions_owner ON console_sessions (owner);
    """,
    # 6: programs that wait for a person; what they hold is in the vault
    """
    CREATE TABLE programs (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        member TEXT NOT NULL,
        bound {bytes} NOT NULL,
        tools TEXT NOT NULL,
        created BIGINT NOT NULL,
        until BIGINT NOT NULL
    );
    CREATE INDEX programs_owner ON programs (owner);
    """,
    # 7: past calls, and what was used in them
    """
    CREATE TABLE calls (
        id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        person TEXT NOT NULL,
        server TEXT NOT NULL,
        tool TEXT NOT NULL,
        outcome TEXT NOT NULL,
        record TEXT NOT NULL
    );
    CREATE INDEX calls_owner ON calls (owner, id);
    CREATE INDEX calls_server ON calls (server, id);
    CREATE INDEX calls_outcome ON calls (outcome, id);
    CREATE TABLE used (
        day BIGINT NOT NULL,
        owner TEXT NOT NULL,
        thread TEXT NOT NULL,
        server TEXT NOT NULL,
        tool TEXT NOT NULL,
        calls BIGINT NOT NULL,
        errors BIGINT NOT NULL,
        seconds DOUBLE PRECISION NOT NULL,
        tokens_in BIGINT NOT NULL,
        tokens_out BIGINT NOT NULL,
        list_tokens BIGINT NOT NULL,
        search_tokens BIGINT NOT NULL,
        cost DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (day, owner, thread, server, tool)
    );
    """,
    # 8: past calls are found by whatever is asked for, and what a person used, without looking at all others
    """
    ALTER TABLE calls ADD COLUMN name TEXT NOT NULL DEFAULT '';
    CREATE INDEX calls_person ON calls (person, id);
    CREATE INDEX calls_tool ON calls (tool, id);
    CREATE INDEX calls_name ON calls (name, id);
    CREATE INDEX used_owner ON used (owner);
    """,
    # 9: what was agreed to of servers' definitions, and what waits to be
    """
    CREATE TABLE agreed_servers (
        owner TEXT NOT NULL,
        server TEXT NOT NULL,
        identity TEXT NOT NULL,
        begun TEXT NOT NULL,
        PRIMARY KEY (owner, server)
    );
    CREATE TABLE pins (
        owner TEXT NOT NULL,
        server TEXT NOT NULL,
        item {bytes} NOT NULL,
        pin {bytes} NOT NULL,
        kind TEXT NOT NULL,
        name {bytes} NOT NULL,
        definition {bytes} NOT NULL,
        agreed BIGINT NOT NULL,
        PRIMARY KEY (owner, server, item, pin)
    );
    CREATE TABLE waiting (
        owner TEXT NOT NULL,
        server TEXT NOT NULL,
        item {bytes} NOT NULL,
        kind TEXT NOT NULL,
        name {bytes} NOT NULL,
        content {bytes} NOT NULL,
        PRIMARY KEY (owner, server, item)
    );
    """,
    # 10: past calls by how long they took, or by program
    """
    ALTER TABLE calls ADD COLUMN seconds DOUBLE PRECISION NOT NULL DEFAULT 0;
    ALTER TABLE calls ADD COLUMN program TEXT NOT NULL DEFAULT '';
    CREATE INDEX calls_program ON calls (program, id) WHERE program <> '';
    CREATE INDEX calls_seconds ON calls (id, seconds);
    """,
    # 11: the tools that used the most, found in the index alone
    """
    CREATE INDEX used_tool ON used (tool, server, tokens_in, tokens_out, list_tokens, search_tokens);
    """,
)
NEWEST = len(STEPS)
VAULT = 3
"""The step that made the vault."""


async def version_of(session: Session) -> int:
    """The number of the last step that was taken; 0 for an empty store, or one that is not there yet."""
    [row] = await session.fetch("SELECT MAX(version) FROM schema_version")
    return int(row[0] or 0)


async def migrate(engine: Engine, steps: tuple[str, ...] = STEPS) -> tuple[int, int]:
    """Take the steps that are missing, all or none; says the version before and after."""
    async with engine.transaction() as session:
        await session.fetch("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY)")
        # Read inside the transaction: whoever came first may have been here meanwhile.
        found = await version_of(session)
        if found > len(steps):
            raise StoreError(
                f"The store was written by a newer Trunkline: its schema is {found}, and this one knows {len(steps)}.",
                hint="Update Trunkline, or use another store.",
            )
        for number, step in enumerate(steps[found:], found + 1):
            for statement in step.format_map(engine.types).split(";"):
                if statement.strip():
                    await session.fetch(statement)
            await session.fetch("INSERT INTO schema_version (version) VALUES (?)", number)
    return found, len(steps)
