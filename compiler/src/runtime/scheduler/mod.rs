//! The order in which everything happens. Source: docs/reference/language.md § 8.7.
//!
//! One step runs at a time, and all that is ready stands in one queue, first in, first out. That
//! alone fixes the order in which values arrive. What remains to be decided is when a relation has
//! all its elements, and that is where orders show: of two relations that could be declared
//! complete now, the first decides what the second gets to see.
//!
//! - `steps`: what a task is, and the kinds of steps.
//! - `tasks`: who waits for which variable, and how a task comes into the queue, once or several
//!   times.
//! - `ready_queue`: the queue of steps that are ready.
//! - `wait_queue`: the main loop, and the rule by which relations are declared complete.
//! - `creation_order`: the numbers that say which task is older.

pub(in crate::runtime) mod creation_order;
pub(in crate::runtime) mod ready_queue;
pub(in crate::runtime) mod steps;
pub(in crate::runtime) mod tasks;
pub(in crate::runtime) mod wait_queue;

use crate::pages::prefer_large;
use crate::runtime::scheduler::creation_order::CreationOrder;
use crate::runtime::scheduler::ready_queue::ReadyQueue;
use crate::runtime::scheduler::steps::Task;
use crate::runtime::scheduler::wait_queue::Queue;
use crate::runtime::speed::memory::arena;
use crate::runtime::{ListenerId, LoopId, RunId, TaskId, VarId};
use crate::span::Loc;

/// Who gets the elements of a list one by one, before the list is complete.
#[derive(Clone, Copy)]
pub(in crate::runtime) enum Listener {
    /// Another list.
    Forward {
        /// The list that gets the elements, and the place of the assignment.
        target: VarId,
        loc: Loc,
    },
    /// A `for`, which runs its body for each.
    For(LoopId),
    /// A comprehension, which starts the computation of each.
    Comprehension(RunId),
    /// The list literal that the listening expression is an element of.
    Literal(VarId),
    /// An `is defined`, which knows its answer with the first element.
    Defined { task: TaskId, result: VarId },
}

/// What runs next and what waits.
///
/// There are two queues. `ready` has the steps that wait for nothing, and they run in the order in which they became ready.
/// When it is empty, `queue` decides which relation is declared complete, which makes more steps ready. Tasks are steps that
/// had to wait: a variable that gets its value counts down those of its chain of waiters
/// ([`ModelState`](crate::runtime::ModelState)), and a task whose count is zero is ready.
pub struct Scheduler {
    /// Steps that are ready, in order.
    pub(in crate::runtime) ready: ReadyQueue,
    /// Delayed variables that may be declared complete.
    pub(in crate::runtime) queue: Queue,
    /// All tasks; the place of one that has run is used again.
    tasks: Vec<Task>,
    /// Places of `tasks` that are free.
    free_tasks: Vec<TaskId>,
    /// Tasks that have not run.
    n_live: u64,
    /// The source of numbers by creation.
    pub(in crate::runtime) numbers: CreationOrder,
    /// All listeners; they are never taken back.
    listeners: Vec<Listener>,
    /// Elements that went from one list to another.
    n_delivered: u64,
}

impl Scheduler {
    /// One with nothing to do, for a program with so many rules of precedence between relations.
    pub fn new(n_policy: usize) -> Scheduler {
        Scheduler {
            ready: ReadyQueue::default(),
            queue: Queue::new(n_policy),
            tasks: arena(),
            free_tasks: arena(),
            n_live: 0,
            numbers: CreationOrder::default(),
            listeners: arena(),
            n_delivered: 0,
        }
    }

    /// Makes a listener; it is attached by `Machine::listen`.
    pub(in crate::runtime) fn add_listener(&mut self, listener: Listener) -> ListenerId {
        self.listeners.push(listener);
        ListenerId(self.listeners.len() as u32 - 1)
    }

    /// What a listener does with an element.
    #[inline]
    pub(in crate::runtime) fn listener(&self, id: ListenerId) -> Listener {
        self.listeners[id.index()]
    }

    /// The list that an element's listener is of.
    pub(in crate::runtime) fn literal_of(&self, id: ListenerId) -> VarId {
        match self.listeners.get(id.index()) {
            Some(Listener::Literal(literal)) => *literal,
            _ => VarId::NONE,
        }
    }

    /// An element goes from one list to another.
    pub(in crate::runtime) fn count_delivery(&mut self) {
        self.n_delivered += 1;
    }

    /// So many steps, tasks and deliveries there were.
    pub(in crate::runtime) fn n_made(&self) -> u64 {
        self.numbers.n_created() + self.n_delivered
    }

    /// So many steps there were, or deliveries if these are more.
    pub(in crate::runtime) fn n_steps(&self) -> u64 {
        self.numbers.n_created().max(self.n_delivered)
    }

    pub(in crate::runtime) fn prefer_large_pages(&self) {
        self.queue.prefer_large_pages();
        prefer_large(&self.listeners, self.listeners.capacity());
        prefer_large(&self.tasks, self.tasks.capacity());
        prefer_large(&self.free_tasks, self.free_tasks.capacity());
    }
}
