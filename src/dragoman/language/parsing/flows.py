"""Flows: which events trigger which commands, and what these emit."""

from __future__ import annotations

from dragoman.language.parsing.cursor import one_of, rule
from dragoman.language.parsing.services import ServiceRules
from dragoman.language.syntax import Combined, Flow, FlowBinding, Name, Step, StepBinding
from dragoman.language.words import AND_WORDS, FLOW_TECHNOLOGIES, FLOW_TYPES, OR_WORDS, XOR_WORDS

_OPERATORS = {
    **dict.fromkeys(AND_WORDS, "and"),
    **dict.fromkeys(XOR_WORDS, "xor"),
    **dict.fromkeys(OR_WORDS, "or"),
}


class FlowRules(ServiceRules):
    @rule(
        f"""'flow' NAME Version? ('realizes' NAME)? ('type' ({one_of(FLOW_TYPES)}))? FlowStep*
        ('binding' 'to' FlowBinding+ ('implemented' 'as' ({one_of(FLOW_TECHNOLOGIES)} | STRING))?)?"""
    )
    def flow(self) -> Flow:
        start = self.expect("flow").start
        name = self.name("the name of the flow")
        version = self.version()
        realizes = self.name("a scenario") if self.take("realizes") else None
        type = None
        if self.take("type"):
            type = self.keyword(FLOW_TYPES, "a flow type: " + ", ".join(FLOW_TYPES))
        steps: list[Step] = []
        while self._at_step():
            steps.append(self.flow_step())
        bindings: list[FlowBinding] = []
        technology = None
        if self.take("binding"):
            self.expect("to")
            bindings.append(self.flow_binding())
            while self._at_binding():
                bindings.append(self.flow_binding())
            if self.take("implemented"):
                self.expect("as")
                technology = self.keyword(FLOW_TECHNOLOGIES, "a technology", string=True)
        return Flow(
            name=name,
            version=version,
            realizes=realizes,
            type=type,
            steps=tuple(steps),
            bindings=tuple(bindings),
            technology=technology,
            span=self.since(start),
        )

    def _at_step(self) -> bool:
        return self.token.text in ("event", "events", "command") and self.ahead().text != "type"

    def _at_binding(self) -> bool:
        """``endpoint type`` also starts a declaration, which has clauses that a binding has not."""
        if self.at("channel", "type"):
            return True
        return self.at("endpoint", "type") and self.ahead(3).text in ("event", "command", "provider")

    @rule(
        """('event' | 'events') NAME (('+' | 'and') NAME)* ('triggers' | 'trigger')
        (('command' | 'commands') Combination | 'flow' NAME) Emission?
        | 'command' NAME ('[' 'initiated' 'by' STRING ']')? Emission"""
    )
    def flow_step(self) -> Step:
        start = self.token.start
        if self.take("command"):
            return self._command_step(start)
        if not (self.take("events") or self.take("event")):
            raise self.fault(("event", "events", "command"))
        events = self.combination()
        if not (self.take("triggers") or self.take("trigger")):
            raise self.fault(("triggers", "trigger"))
        commands, subflow = None, None
        if self.take("flow"):
            subflow = self.name("a flow")
        elif self.take("commands") or self.take("command"):
            commands = self.combination()
        else:
            raise self.fault(("command", "commands", "flow"))
        emitted = self.emission() if self._at_emission() else None
        return Step(
            events=events, commands=commands, subflow=subflow, emitted=emitted, span=self.since(start)
        )

    def _command_step(self, start: int) -> Step:
        name = self.name("a command type")
        commands = Combined(names=(name,), span=name.span)
        actor = None
        if self.take("["):
            self.expect("initiated", "by")
            actor = self.text("an actor, as a string")
            self.expect_mark("]")
        emitted = self.emission()
        return Step(commands=commands, actor=actor, emitted=emitted, span=self.since(start))

    def _at_emission(self) -> bool:
        return self.token.text in ("emits", "emit")

    @rule("('emits' | 'emit') ('event' | 'events') Combination")
    def emission(self) -> Combined:
        if not (self.take("emits") or self.take("emit")):
            raise self.fault(("emits", "emit"))
        if not (self.take("events") or self.take("event")):
            raise self.fault(("event", "events"))
        return self.combination()

    @rule(
        f"""NAME (({one_of(AND_WORDS)}) NAME)+ | NAME (({one_of(XOR_WORDS)}) NAME)+
        | NAME (({one_of(OR_WORDS)}) NAME)* """
    )
    def combination(self) -> Combined:
        start = self.token.start
        names = [self.name("an event or command type")]
        operators: list[str] = []
        while self.token.text in _OPERATORS:
            operators.append(_OPERATORS[self.advance().text])
            names.append(self.name("an event or command type"))
        return Combined(names=tuple(names), operators=tuple(operators), span=self.since(start))

    @rule(
        """('endpoint' 'type' NAME StepBinding+ | 'channel' 'type' NAME StepBinding*)
        ('provider' NAME)?"""
    )
    def flow_binding(self) -> FlowBinding:
        start = self.token.start
        channel = self.at("channel")
        self.expect("channel" if channel else "endpoint")
        self.expect("type")
        target = self.name("a channel or endpoint type")
        steps: list[StepBinding] = []
        while self._at_step():
            steps.append(self.step_binding())
        provider: Name | None = self.name("a provider or broker") if self.take("provider") else None
        return FlowBinding(
            channel=channel, target=target, steps=tuple(steps), provider=provider, span=self.since(start)
        )

    @rule(
        """('event' | 'command') NAME 'to' ('operation' | 'message') NAME
        ('with' 'mediation' 'from' NAME 'to' NAME)?"""
    )
    def step_binding(self) -> StepBinding:
        start = self.token.start
        event = self.take("event")
        if not event:
            self.expect("command")
        signal = self.name("an event or command type")
        self.expect("to")
        operation = self.take("operation")
        if not operation:
            self.expect("message")
        target = self.name("an operation or message")
        mediation = None
        if self.take("with", "mediation"):
            self.expect("from")
            before = self.name("a data type")
            self.expect("to")
            mediation = (before, self.name("a data type"))
        return StepBinding(
            event=event,
            signal=signal,
            operation=operation,
            target=target,
            mediation=mediation,
            span=self.since(start),
        )
