"""Message brokers and message endpoints."""

from __future__ import annotations

from dragoman.language.parsing.channels import ChannelRules, number_of
from dragoman.language.parsing.cursor import one_of, rule
from dragoman.language.syntax import (
    Bindings,
    Broker,
    Condition,
    Endpoint,
    Exposure,
    Keyword,
    Name,
    Policy,
    Scalar,
    Text,
    Use,
    Uses,
)
from dragoman.language.tokens import NUMBER, STRING, WORD, Span
from dragoman.language.words import COMPARISONS, ENDPOINT_TYPES, PROTOCOLS, RESOURCE_ROLES, SECURITY


class EndpointRules(ChannelRules):
    @rule("'message' 'broker' NAME Description? ('exposes' Exposure (',' Exposure)*)+")
    def message_broker(self) -> Broker:
        start = self.expect("message", "broker").start
        name = self.name("the name of the broker")
        description = self.description()
        exposures: list[Exposure] = []
        self.expect("exposes")
        exposures.append(self.exposure())
        while self.take(",") or self.take("exposes"):
            exposures.append(self.exposure())
        return Broker(name=name, description=description, exposures=tuple(exposures), span=self.since(start))

    @rule(
        """NAME (',' NAME)* 'at' ('location' | 'endpoint') STRING TechnologyBinding
        ('bindings' BindingObject)? SecurityPolicy*"""
    )
    def exposure(self) -> Exposure:
        start = self.token.start
        contracts = [self.name("a channel, or the name of the API")]
        while self.take(","):
            contracts.append(self.name("a channel"))
        self.expect("at")
        if not self.take("endpoint"):
            self.expect("location")
        location = self.text("the location, as a string")
        protocol = self.technology_binding()
        bindings = None
        if self.at("bindings"):
            bindings_start = self.expect("bindings").start
            bindings = Bindings(protocol=None, object=self.binding_object(), span=self.since(bindings_start))
        policies: list[Policy] = []
        while self.at("policy"):
            policies.append(self.security_policy())
        return Exposure(
            contracts=tuple(contracts),
            location=location,
            protocol=protocol,
            bindings=bindings,
            policies=tuple(policies),
            span=self.since(start),
        )

    @rule("'via' 'protocol' Protocol")
    def technology_binding(self) -> Keyword:
        self.expect("via", "protocol")
        return self.protocol()

    @rule(
        f"""'policy' NAME 'realized' 'using' ({one_of(SECURITY)} | STRING)
        ('in' STRING)? ('with' BindingObject)?"""
    )
    def security_policy(self) -> Policy:
        start = self.expect("policy").start
        name = self.name("the name of the policy")
        self.expect("realized", "using")
        mechanism = self.keyword(
            SECURITY, "a mechanism: " + ", ".join(SECURITY[:-1]) + ", or a string", string=True
        )
        place = self.text("a place such as '\"$message.header#/apiKey\"'") if self.take("in") else None
        settings = self.binding_object() if self.take("with") else None
        return Policy(name=name, mechanism=mechanism, place=place, settings=settings, span=self.since(start))

    @rule(
        """'message' 'endpoint' NAME ('of' 'type' EndpointType (',' EndpointType)*)?
        ServedRoles? Description? (('uses' | 'provides') ChannelUses*)+"""
    )
    def message_endpoint(self) -> Endpoint:
        start = self.expect("message", "endpoint").start
        name = self.name("the name of the endpoint")
        types: list[Keyword] = []
        if self.take("of"):
            self.expect("type")
            types.append(self.endpoint_type())
            while self.take(",") or self.take("and"):
                types.append(self.endpoint_type())
        roles = self.served_roles() if self.at("serves") else ()
        description = self.description()
        uses: list[Uses] = []
        if not (self.at("uses") or self.at("provides")):
            raise self.fault(("of", "serves", "description", "uses", "provides"), "'uses' or 'provides'")
        while self.at("uses") or self.at("provides"):
            provides = self.advance().text == "provides"
            while self._at_group():
                uses.append(self.channel_uses(provides))
        return Endpoint(
            name=name,
            types=tuple(types),
            roles=roles,
            description=description,
            uses=tuple(uses),
            span=self.since(start),
        )

    def _at_group(self) -> bool:
        if self.at("channels", ":"):
            return True
        return self.at("from") and self.ahead().kind == WORD and self.ahead(2).text == ":"

    @rule(one_of(ENDPOINT_TYPES))
    def endpoint_type(self) -> Keyword:
        return self.keyword(ENDPOINT_TYPES, "an endpoint type: " + ", ".join(ENDPOINT_TYPES))

    @rule("'serves' 'as' ResourceRole ((',' | 'and') ResourceRole)* 'role'?")
    def served_roles(self) -> tuple[Keyword, ...]:
        self.expect("serves", "as")
        roles = [self.resource_role()]
        while self.take(",") or self.take("and"):
            roles.append(self.resource_role())
        self.take("role")
        return tuple(roles)

    @rule(one_of(RESOURCE_ROLES) + " | STRING")
    def resource_role(self) -> Keyword:
        return self.keyword(RESOURCE_ROLES, "a role: " + ", ".join(RESOURCE_ROLES), string=True)

    @rule("('channels' | 'from' NAME) ':' ChannelUse (',' ChannelUse)* ','?")
    def channel_uses(self, provides: bool) -> Uses:
        start = self.token.start
        broker: Name | None = None
        if not self.take("channels"):
            self.expect("from")
            broker = self.name("a broker")
        self.expect(":")
        uses = [self.channel_use()]
        while self.take(","):
            if self._at_group() or self.at("uses") or self.at("provides") or self.at_declaration():
                break
            uses.append(self.channel_use())
        return Uses(provides=provides, broker=broker, uses=tuple(uses), span=self.since(start))

    @rule(
        """NAME ('where' Condition (',' Condition)* (',' 'all' 'subscriptions' 'are' 'durable')?
        | 'where' 'all' 'subscriptions' 'are' 'durable')? (Protocol | TechnologyBinding)?"""
    )
    def channel_use(self) -> Use:
        start = self.token.start
        channel = self.name("a channel or one of its messages")
        conditions: list[Condition] = []
        durable: Keyword | None = None
        if self.take("where"):
            while durable is None:
                if self.at("all"):
                    span = self.expect("all", "subscriptions", "are", "durable")
                    durable = Keyword(text="durable", span=span)
                else:
                    conditions.append(self.condition())
                comma = self.at(",") and (self.ahead().text in ("consumed", "all"))
                if not (comma and self.take(",")) and not self.at("all", "subscriptions"):
                    break
        return Use(
            channel=channel,
            conditions=tuple(conditions),
            durable=durable,
            protocol=self._use_protocol(),
            span=self.since(start),
        )

    def _use_protocol(self) -> Keyword | None:
        if self.at("via"):
            return self.technology_binding()
        if self.token.kind == STRING or (self.token.kind == WORD and self.token.text in PROTOCOLS):
            return self.protocol()
        return None

    @rule(f"'consumed' 'if' STRING ({one_of(COMPARISONS)}) (STRING | NUMBER)")
    def condition(self) -> Condition:
        start = self.token.start
        self.expect("consumed", "if")
        left = self.text("a pointer such as '\"$message.payload#/id\"'")
        operator = self.token.text
        if self.token.kind == STRING or operator not in COMPARISONS:
            raise self.fault(COMPARISONS)
        self.advance()
        return Condition(left=left, operator=operator, right=self._right(), span=self.since(start))

    def _right(self) -> Text | Scalar:
        token = self.token
        if token.kind == NUMBER:
            self.advance()
            return Scalar(value=number_of(token.text), raw=token.text, span=Span(token.start, token.end))
        return self.text("a string or a number")
