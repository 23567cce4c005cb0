//! Elements of a list that are handed on before the list is complete. Source:
//! docs/reference/language.md § 8.5.
//!
//! `for service in host.services:` does not need to know that `host.services` is complete; it can
//! start a body for each element that arrives. It has to work this way, since the bodies may add to
//! other lists, and these to `host.services` again. So a consumer attaches a *listener* to the
//! list, and gets the elements that are there, then each new one at the moment when it is added, in
//! the middle of that step. It also waits for the list to be complete, to know that its work is
//! done; that wait does not count in [`ModelState::potential`].
//!
//! Consumers are `for`, comprehensions, streamed list literals, assignments to a list relation, and
//! `is defined`. Delivery is depth first: an element that goes into another list goes to the
//! listeners of that list before the next element is delivered.
//!
//! `is defined` is special. It wants one known element, and its wait does count, until an element
//! arrives *after* it has begun to listen. If the list had elements before, its answer is known at
//! once, but the wait stays. That is how the reference behaves, and a model may notice by what is
//! complete first.

use crate::diagnostics::Fail;
use crate::runtime::{Listener, ListenerId, Machine, TaskId, VarId, VarKind};
use crate::span::Loc;
use crate::types::Value;

impl Machine<'_> {
    /// Attaches a listener to a variable, through proxies. A variable that is no list needs none:
    /// its value is delivered when the expression is evaluated.
    pub(in crate::runtime) fn listen(
        &mut self,
        id: VarId,
        listener: ListenerId,
    ) -> Result<(), Fail> {
        let target = self.state.target(id);
        match self.state.var(target).kind() {
            VarKind::Proxy => {
                self.state.set_listener(target, listener);
                Ok(())
            }
            VarKind::ForLoop => {
                let value = self.state.var(target).value(&self.state.heap);
                self.deliver_all(listener, value)
            }
            VarKind::List | VarKind::Literal => self.listen_list(target, listener),
            VarKind::Plain | VarKind::Temporary | VarKind::Single | VarKind::Optional => Ok(()),
        }
    }

    /// Delivers what a list has, and registers the listener for what will come. The list may grow
    /// under the delivery; then the loop goes on with what is new.
    fn listen_list(&mut self, id: VarId, listener: ListenerId) -> Result<(), Fail> {
        self.exec.enter_delivery()?;
        let mut at = 0;
        // The list may grow while it is delivered; then the loop goes on.
        loop {
            let item = match self.state.var(id).value(&self.state.heap) {
                Value::List(list) => self.state.heap.list(list).get(at).copied(),
                _ => self.state.elements(id).get(at).copied(),
            };
            let Some(item) = item else {
                break;
            };
            at += 1;
            if let Listener::Defined { result, .. } = self.scheduler.listener(listener) {
                if !matches!(item, Value::Unknown(_)) && !self.state.var(result).is_ready() {
                    self.set_plain(result, Value::Bool(true), Loc::NONE)?;
                }
                continue;
            }
            self.deliver(listener, item)?;
        }
        self.exec.leave_delivery();
        if self.state.var(id).is_ready() {
            return Ok(());
        }
        let kind = self.scheduler.listener(listener);
        let is_streaming = !matches!(kind, Listener::Defined { .. });
        // A list literal, with those in it, may name one relation twice: what comes later is delivered once, and both wait
        // for the rest.
        let is_new = match self.consumer_of_literal(listener) {
            Some(consumer) => self.exec.literals_attached.insert((consumer, id)),
            None => true,
        };
        let delayed = self.state.delayed_mut(id);
        if is_new {
            delayed.rare().listeners.push(listener);
        }
        if is_streaming {
            delayed.streaming += 1;
            self.potential_changed(id);
        }
        Ok(())
    }

    /// Who gets what a list literal is given, through the literals that it is an item of. `None`: none of them has another item,
    /// or it is no literal. Items are open as long as the relations are that they name, so such a literal names no other.
    fn consumer_of_literal(&self, listener: ListenerId) -> Option<ListenerId> {
        let mut has_other_items = false;
        let mut consumer = listener;
        while let Listener::Literal(literal) = self.scheduler.listener(consumer) {
            let Some(delayed) = self.state.delayed(literal) else {
                break;
            };
            has_other_items |= delayed.items > 1;
            let listeners = delayed.rare.as_ref().map(|rare| &rare.listeners);
            match listeners.and_then(|listeners| listeners.first()) {
                Some(next) => consumer = *next,
                None => break,
            }
        }
        has_other_items.then_some(consumer)
    }

    /// An element has come, so the answer of an `is defined` is known before the list is complete.
    pub(in crate::runtime) fn defined_early(
        &mut self,
        id: VarId,
        listener: ListenerId,
        task: TaskId,
        result: VarId,
    ) -> Result<(), Fail> {
        // A notification inside of a notification was here before.
        if self.state.var(id).is_ready() {
            return Ok(());
        }
        let delayed = self.state.delayed_mut(id);
        let known = &mut delayed.rare().listeners;
        let Some(at) = known.iter().position(|known| *known == listener) else {
            return Ok(());
        };
        known.remove(at);
        delayed.waiters -= 1;
        self.potential_changed(id);
        if !self.state.var(result).is_ready() {
            self.set_plain(result, Value::Bool(true), Loc::NONE)?;
        }
        self.scheduler.cancel(task);
        Ok(())
    }

    /// Delivers the elements of a list, or a value that is none as one element.
    pub(in crate::runtime) fn deliver_all(
        &mut self,
        listener: ListenerId,
        value: Value,
    ) -> Result<(), Fail> {
        let Value::List(list) = value else {
            return self.deliver(listener, value);
        };
        for at in 0..self.state.heap.list(list).len() {
            let item = self.state.heap.list(list)[at];
            self.deliver(listener, item)?;
        }
        Ok(())
    }

    /// Delivers one element to a listener.
    pub(in crate::runtime) fn deliver(
        &mut self,
        listener: ListenerId,
        item: Value,
    ) -> Result<(), Fail> {
        if matches!(item, Value::Skip) {
            return Ok(());
        }
        // Lists that feed one another grow faster than their instances.
        self.scheduler.count_delivery();
        match self.scheduler.listener(listener) {
            Listener::Forward { target, loc } => self.set_slot(target, item, loc),
            Listener::For(run) => self.start_body(run, item),
            Listener::Comprehension(run) => self.start_element(run, item),
            Listener::Literal(literal) => self.add_to_literal(literal, item),
            Listener::Defined { .. } => Ok(()),
        }
    }

    /// Adds an element to a streamed list literal. Unlike a relation, it takes an element as often
    /// as it comes.
    pub(in crate::runtime) fn add_to_literal(
        &mut self,
        id: VarId,
        item: Value,
    ) -> Result<(), Fail> {
        if self.state.var(id).is_ready() {
            return Ok(());
        }
        self.state.delayed_mut(id).elements.push(item);
        self.deliver_to_listeners(id, item)?;
        self.enqueue_if_complete(id);
        Ok(())
    }
}
