"""The registry in process: the port of ``dragoman.core.registry`` over a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dragoman.core.channel import check_name
from dragoman.core.contract import Compatibility, Contract, ContractVersion, Verdict
from dragoman.core.database import Transaction
from dragoman.core.loading import DATABASES, load, scheme_of
from dragoman.core.registry import VersionNumber
from dragoman.core.schema import Schema
from dragoman.registry import checking, deletion, lookup, refusals, registration
from dragoman.registry.engine import Engine
from dragoman.registry.limits import Limits
from dragoman.registry.model import LATEST, Draft, Settings, StoredVersion
from dragoman.registry.modes import require_writable
from dragoman.registry.name import ContractName, contract_name, parse_name
from dragoman.registry.proposal import propose, propose_next
from dragoman.registry.store import contracts, history, schemas, settings
from dragoman.schema.naming import channel_of

LOCAL_AUTHOR = "local"


class RegistryService:
    """All rules of the registry. ``by`` gives the same service on behalf of somebody else."""

    def __init__(self, engine: Engine, author: str = LOCAL_AUTHOR) -> None:
        self.engine = engine
        self.author = author

    @classmethod
    def open(cls, url: str, *, limits: Limits | None = None) -> RegistryService:
        """A service over the database at a URL; brings its tables up to date."""
        return cls(Engine(load(DATABASES, scheme_of(url))(url), limits=limits))

    def by(self, author: str) -> RegistryService:
        return RegistryService(self.engine, author)

    async def schema(self, id: int) -> Schema:
        found = await self.engine.read(lambda tx: schemas.by_id(tx, ".", id))
        if found is None:
            raise refusals.no_schema(id)
        return found.value()

    async def contracts(self, prefix: str = "") -> Sequence[str]:
        found = await self.engine.read(contracts.names)
        return [name for each in found if (name := str(each)).startswith(prefix)]

    async def contract(self, name: str) -> Contract:
        wanted = contract_name(name)
        return await self.engine.read(lambda tx: describe_contract(tx, wanted))

    async def versions(self, contract: str) -> Sequence[int]:
        name = contract_name(contract)
        found = await self.engine.read(lambda tx: contracts.numbers(tx, name))
        live = [number for number, hidden in found if not hidden]
        if not live:
            raise refusals.no_contract(name)
        return live

    async def version(self, contract: str, version: VersionNumber = "latest") -> ContractVersion:
        name, number = contract_name(contract), lookup.version_number(version)
        return _value(await self.engine.read(lambda tx: lookup.version_of(tx, name, number)))

    async def register(self, contract: str, schema: Schema, *, normalize: bool = False) -> ContractVersion:
        asked = registration.Registration(
            contract_name(contract), Draft.of(schema), normalize, author=self.author
        )
        return _value(await self.submit(asked))

    async def submit(self, asked: registration.Registration) -> StoredVersion:
        """Register. What is there already is found without waiting for any writer."""
        parser = self.engine.parser
        found = await self.engine.read(lambda tx: registration.already_there(tx, parser, asked))
        if found is not None:
            return found
        return await self.engine.write(lambda tx: registration.register(tx, parser, asked), asked.name)

    async def find(self, contract: str, schema: Schema, *, normalize: bool = False) -> ContractVersion:
        name = contract_name(contract)
        return _value(await self.search(name, Draft.of(schema), normalize=normalize))

    async def search(
        self, name: ContractName, draft: Draft, *, normalize: bool = False, deleted: bool = False
    ) -> StoredVersion:
        """The version of a contract that has this content."""

        def work(tx: Transaction) -> StoredVersion:
            if not lookup.exists(tx, name, deleted=deleted):
                raise refusals.no_contract(name)
            by_default = bool(settings.effective(tx, name).normalize)
            proposal = propose(tx, self.engine.parser, name, draft, normalize=normalize or by_default)
            found = lookup.with_content(tx, name, proposal, deleted=deleted)
            if found is None:
                raise refusals.no_schema()
            return found

        return await self.engine.read(work)

    async def check(
        self, contract: str, schema: Schema, *, version: VersionNumber | None = None, normalize: bool = False
    ) -> Verdict:
        number = None if version is None else lookup.version_number(version)
        name = contract_name(contract)
        verdict, _ = await self.judge(name, Draft.of(schema), number, normalize=normalize)
        return verdict

    async def judge(
        self, name: ContractName, draft: Draft, number: int | None, *, normalize: bool = False
    ) -> tuple[Verdict, list[str]]:
        """The verdict, and its reasons as clients of the subject API show them."""
        parser = self.engine.parser

        def work(tx: Transaction) -> tuple[Verdict, list[str]]:
            chosen, latest = settings.effective(tx, name), contracts.latest(tx, name)
            proposal = propose_next(tx, parser, name, draft, latest, chosen, normalize=normalize)
            existing = _compared(tx, name, number)
            verdict = checking.judge(tx, parser, proposal, existing, chosen)
            if verdict.compatible:
                return verdict, []
            old = next((each for each in existing if each.version == verdict.version), None)
            return verdict, checking.describe(verdict.reasons, old, chosen)

        return await self.engine.read(work)

    async def set_compatibility(self, contract: str, compatibility: Compatibility) -> None:
        name = contract_name(contract)
        await self.configure(name, Settings(compatibility=compatibility))

    async def configure(self, name: ContractName, change: Settings) -> Settings:
        """Set what ``change`` names, leave the rest; the scope's own settings afterwards."""
        change.check()
        return await self.engine.write(
            lambda tx: self._configure(tx, name, change), ContractName(name.context, "")
        )

    async def configure_and_submit(self, change: Settings, asked: registration.Registration) -> StoredVersion:
        """Both or neither: register under the changed settings, which stay as they were if it is refused."""
        change.check()
        parser = self.engine.parser

        def work(tx: Transaction) -> StoredVersion:
            self._configure(tx, asked.name, change)
            return registration.register(tx, parser, asked)

        return await self.engine.write(work, ContractName(asked.name.context, ""), asked.name)

    def _configure(self, tx: Transaction, name: ContractName, change: Settings) -> Settings:
        require_writable(tx, name)
        before = settings.own(tx, name) or Settings()
        after = replace(
            change.over(before),
            alias=before.alias if change.alias is None else change.alias,
            attributes=change.attributes or before.attributes,
        )
        settings.set_own(tx, name, after)
        history.record(tx, self.author, "configure", name, None, change.stored())
        return after

    async def delete(
        self, contract: str, version: int | None = None, *, permanent: bool = False
    ) -> Sequence[int]:
        name, author = parse_name(contract), self.author
        # A schema may be gone with its last version, so more than this contract's answers are touched.
        touched = ContractName(name.context, "") if permanent else name
        if version is None:
            return await self.engine.write(
                lambda tx: deletion.delete_contract(tx, name, permanent=permanent, author=author), touched
            )
        number = lookup.version_number(version)
        gone = await self.engine.write(
            lambda tx: deletion.delete_version(tx, name, number, permanent=permanent, author=author), touched
        )
        return [gone]

    async def bind(self, name: ContractName, channel: str) -> bool:
        """Tie a channel to a contract that has versions; ``False`` if it was tied before."""
        check_name(channel)

        def work(tx: Transaction) -> bool:
            require_writable(tx, name)
            lookup.version_of(tx, name, LATEST)
            return history.bind(tx, name, channel, self.author)

        return await self.engine.write(work, name)

    async def unbind(self, name: ContractName, channel: str) -> None:
        """Raises ``NotFound`` if it is not tied."""

        def work(tx: Transaction) -> None:
            require_writable(tx, name)
            if not history.unbind(tx, name, channel, self.author):
                raise refusals.no_binding(name, channel)

        await self.engine.write(work, name)

    async def close(self) -> None:
        self.engine.close()


def describe_contract(tx: Transaction, name: ContractName) -> Contract:
    """A contract as it stands, bound to the channel that was bound first, or that its name implies."""
    latest = contracts.latest(tx, name)
    if latest is None:
        raise refusals.no_contract(name)
    strategy = settings.effective(tx, name).compatibility or Compatibility.BACKWARD
    bound = history.channels_of(tx, name)
    channel = bound[0] if bound else channel_of(name.contract)
    return Contract(str(name), channel, strategy, latest.version)


def _compared(tx: Transaction, name: ContractName, number: int | None) -> Sequence[StoredVersion]:
    """The versions to compare with: all, or the one asked for. None yet is no obstacle."""
    if number is None:
        return contracts.versions(tx, name)
    if number == LATEST:
        found = contracts.latest(tx, name)
        return [found] if found else []
    wanted = contracts.version(tx, name, number)
    if wanted is None:
        raise refusals.no_version(number)
    return [wanted]


def _value(found: StoredVersion) -> ContractVersion:
    return ContractVersion(str(found.name), found.version, found.schema.value())
