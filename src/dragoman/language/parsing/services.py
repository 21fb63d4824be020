"""Plain MDSL, so far as it stands beside channels: endpoint types, providers, clients."""

from __future__ import annotations

from dragoman.language.parsing.cursor import one_of, rule
from dragoman.language.parsing.endpoints import EndpointRules
from dragoman.language.syntax import (
    ApiClient,
    Consumption,
    EndpointType,
    Foreign,
    Keyword,
    Link,
    Location,
    Offer,
    Operation,
    Provider,
    ReceivedEvent,
    Report,
    Representation,
    SecurityRule,
    Text,
    Verbatim,
)
from dragoman.language.tokens import WORD, Span
from dragoman.language.words import EXCHANGE_PATTERNS, RESPONSIBILITIES, ROLES

_REPORTS = ("status", "error", "analytics")
_AFTER_STRUCTURE = (
    *_REPORTS,
    "operation",
    "links",
    "reporting",
    "transitions",
    "emitting",
    "compensated",
    "protected",
    "policy",
    "exposes",
    "receives",
    "delivering",
)


class ServiceRules(EndpointRules):
    @rule(
        """'endpoint' 'type' NAME Version? ('supports' ('flow' | 'scenario') NAME)? ServedRoles?
        SecurityRule? ('exposes' Operation+)? ('receives' ReceivedEvent+)?"""
    )
    def service_endpoint(self) -> EndpointType:
        start = self.expect("endpoint", "type").start
        name = self.name("the name of the endpoint type")
        version = self.version()
        supports = None
        if self.take("supports"):
            what = self.keyword(("flow", "scenario"), "'flow' or 'scenario'").text
            supports = (what, self.name())
        roles = self.served_roles() if self.at("serves") else ()
        policy = self.security_rule() if self.at("policy") else None
        operations: list[Operation] = []
        if self.take("exposes"):
            operations.append(self.operation())
            while self.at("operation"):
                operations.append(self.operation())
        events = self._events() if self.take("receives") else ()
        return EndpointType(
            name=name,
            version=version,
            supports=supports,
            roles=roles,
            policy=policy,
            operations=tuple(operations),
            events=events,
            span=self.since(start),
        )

    def _events(self) -> tuple[ReceivedEvent, ...]:
        events = [self.received_event()]
        while self.at("event") and not self.at("event", "type"):
            events.append(self.received_event())
        return tuple(events)

    @rule("'event' NAME Version?")
    def received_event(self) -> ReceivedEvent:
        start = self.expect("event").start
        name = self.name("an event type")
        return ReceivedEvent(name=name, version=self.version(), span=self.since(start))

    @rule(
        """'operation' NAME Version? ('with' 'responsibility' Responsibility)?
        ('in' ExchangePattern 'conversation')? ('expecting' Representation)?
        ('delivering' Representation ('links' RelationshipLink+)? ('reporting' StatusReport+)?)?
        ('transitions' 'from' STRING 'to' STRING)? ('emitting' ReceivedEvent+)?
        ('compensated' 'by' NAME)? ('protected' 'by' SecurityRule+)?"""
    )
    def operation(self) -> Operation:
        start = self.expect("operation").start
        name = self.name("the name of the operation")
        version = self.version()
        responsibility = self.responsibility() if self.take("with", "responsibility") else None
        pattern = None
        if self.take("in"):
            pattern = self.exchange_pattern()
            self.expect("conversation")
        request = self.representation() if self.take("expecting") else None
        response = self.representation() if self.take("delivering") else None
        return Operation(
            name=name,
            version=version,
            responsibility=responsibility,
            pattern=pattern,
            request=request,
            response=response,
            links=self._links(),
            reports=self._reports(),
            transition=self._transition(),
            events=self._events() if self.take("emitting") else (),
            undone_by=self.name("an operation") if self.take("compensated", "by") else None,
            policies=self._policies(),
            span=self.since(start),
        )

    def _links(self) -> tuple[Link, ...]:
        links: list[Link] = []
        if self.take("links"):
            links.append(self.relationship_link())
            while self.ahead().text == ":":
                links.append(self.relationship_link())
        return tuple(links)

    def _reports(self) -> tuple[Report, ...]:
        reports: list[Report] = []
        if self.take("reporting"):
            reports.append(self.status_report())
            while self.token.text in _REPORTS:
                reports.append(self.status_report())
        return tuple(reports)

    def _transition(self) -> tuple[Text, Text] | None:
        if not self.take("transitions"):
            return None
        self.expect("from")
        before = self.text()
        self.expect("to")
        return before, self.text()

    def _policies(self) -> tuple[SecurityRule, ...]:
        policies: list[SecurityRule] = []
        if self.take("protected", "by"):
            policies.append(self.security_rule())
            while self.at("policy"):
                policies.append(self.security_rule())
        return tuple(policies)

    @rule(one_of(RESPONSIBILITIES) + " | STRING")
    def responsibility(self) -> Keyword:
        return self.keyword(RESPONSIBILITIES, "a responsibility", string=True)

    @rule(one_of(EXCHANGE_PATTERNS) + " | STRING")
    def exchange_pattern(self) -> Keyword:
        return self.keyword(EXCHANGE_PATTERNS, "an exchange pattern", string=True)

    @rule("('headers' ElementStructure)? 'payload' ElementStructure ('structured' 'as' TypeSystem)?")
    def representation(self) -> Representation:
        start = self.token.start
        headers = self.element_structure() if self.take("headers") else None
        self.expect("payload")
        payload = self.element_structure()
        type_system = self.type_system() if self.take("structured", "as") else None
        return Representation(
            headers=headers, payload=payload, type_system=type_system, span=self.since(start)
        )

    @rule("STRING ':' NAME")
    def relationship_link(self) -> Link:
        start = self.token.start
        name = self.text("the name of a link")
        self.expect_mark(":")
        return Link(name=name, relation=self.name("a relation type"), span=self.since(start))

    @rule("('status' | 'error' | 'analytics') (NAME ElementStructure? | ElementStructure)")
    def status_report(self) -> Report:
        start = self.token.start
        word = self.keyword(_REPORTS, "'status', 'error' or 'analytics'").text
        # A name with a cardinality or a colon behind it belongs to a structure.
        bare = self.ahead().text not in (":", "?", "*", "+", "!")
        named = bare and self.token.kind == WORD and self.token.text not in (*ROLES, "P")
        name = self.name() if named else None
        structure = None
        if not named or self.at_structure(_AFTER_STRUCTURE):
            structure = self.element_structure()
        return Report(word=word, name=name, structure=structure, span=self.since(start))

    @rule("'policy' NAME ElementStructure?")
    def security_rule(self) -> SecurityRule:
        start = self.expect("policy").start
        name = self.name("the name of the policy")
        structure = self.element_structure() if self.at_structure(_AFTER_STRUCTURE) else None
        return SecurityRule(name=name, structure=structure, span=self.since(start))

    @rule("'API' 'provider' NAME Version? Offer+ ('under' 'conditions' STRING)? ('provider' VERBATIM)?")
    def api_provider(self) -> Provider:
        start = self.expect("API", "provider").start
        name = self.name("the name of the provider")
        version = self.version()
        offers = [self.offer()]
        while self.at("offers"):
            offers.append(self.offer())
        conditions = self.text() if self.take("under", "conditions") else None
        return Provider(
            name=name,
            version=version,
            offers=tuple(offers),
            conditions=conditions,
            rest=self._verbatim(("provider",)),
            span=self.since(start),
        )

    @rule("'offers' NAME ServiceLocation*")
    def offer(self) -> Offer:
        start = self.expect("offers").start
        contract = self.name("an endpoint type")
        locations: list[Location] = []
        while self.at("at"):
            locations.append(self.service_location())
        return Offer(contract=contract, locations=tuple(locations), span=self.since(start))

    @rule(
        """'at' 'endpoint' 'location' STRING TechnologyBinding+
        (('with' | 'endpoint' | 'binding' | 'static' | 'dynamic') VERBATIM)?"""
    )
    def service_location(self) -> Location:
        start = self.expect("at", "endpoint", "location").start
        text = self.text("the location, as a string")
        protocols = [self.technology_binding()]
        while self.at("via"):
            protocols.append(self.technology_binding())
        return Location(
            text=text,
            protocols=tuple(protocols),
            rest=self._verbatim(("with", "endpoint", "binding", "static", "dynamic")),
            span=self.since(start),
        )

    def _verbatim(self, starts: tuple[str, ...]) -> Verbatim | None:
        """Bindings and service level agreements, which are kept and not interpreted."""
        if self.token.text not in starts or self.at_declaration():
            return None
        start = self.token.start
        words = self.skip_until(("offers", "at", "under"))
        return Verbatim(words=words, span=self.since(start))

    @rule("'API' 'client' NAME Version? ServiceConsumption+")
    def api_client(self) -> ApiClient:
        start = self.expect("API", "client").start
        name = self.name("the name of the client")
        version = self.version()
        consumptions = [self.service_consumption()]
        while self.at("consumes"):
            consumptions.append(self.service_consumption())
        return ApiClient(name=name, version=version, consumptions=tuple(consumptions), span=self.since(start))

    @rule("'consumes' NAME (('from' | 'through') NAME)? TechnologyBinding?")
    def service_consumption(self) -> Consumption:
        start = self.expect("consumes").start
        contract = self.name("an endpoint type")
        gateway = self.at("through")
        provider = None
        if self.take("from") or self.take("through"):
            provider = self.name("a provider")
        protocol = self.technology_binding() if self.at("via") else None
        return Consumption(
            contract=contract, provider=provider, gateway=gateway, protocol=protocol, span=self.since(start)
        )

    @rule(
        """('relation' 'type' | 'SLA' 'template' | 'API' 'gateway' | 'API' 'provider' 'implementation'
        | 'scenario') NAME VERBATIM?"""
    )
    def foreign_declaration(self) -> Foreign:
        start, first = self.token.start, self.index
        if not self.take("scenario"):
            self.advance()
            self.advance()
            self.take("implementation")
        name = self.name("a name")
        self.index = first
        words = self.skip_until(())
        return Foreign(name=name, words=words, span=Span(start, self.since(start).end))
