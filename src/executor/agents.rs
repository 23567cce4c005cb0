//! The agents of an executor: each works off its tasks in order, one at a time, and all of them side by side.
//!
//! An agent is a queue, no thread: there may be ten thousand, most of which have nothing to do. Threads take an agent that
//! has a task, run it, and take the next. There are two *lanes* of threads, so that handlers in Python, which may all be
//! waiting for hosts, hold up no native one.
//!
//! How many threads a lane has goes by what they do. Tasks that compute are done soonest when about as many run as there are
//! processors; more would only take memory. Tasks that wait, for a device or a remote system, cost nothing meanwhile, and as
//! many as possible should wait at once. Nobody can tell them apart beforehand; but a task that has run for a while is
//! probably waiting. So a lane begins another task while few tasks are *fresh*, and gets more threads the longer its tasks
//! take, up to its limit.
//!
//! That alone would begin so many tasks a second and no more: devices that answer after a second would be waited for by twenty
//! threads, since each of them has a fresh task again by the time at which another thread might be started. So while
//! processors have nothing to do, a lane gets more threads whatever its tasks are at.
//!
//! A native handler may hang for good. The *keeper*, a thread that looks after all of this, then takes the agent from the
//! thread that hangs, which is none of the lane's any more.
//!
//! In the lane for Python, agents wait in one queue for each code. While the modules of some code are being imported, which
//! may take minutes if they hang, agents with other code go first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::domain::{ActionId, AgentName};
use crate::executor::agent::{Ask, Worker, native_handler};
use crate::executor::code_folder::Code;
use crate::executor::hosts::{Host, Hosts, TURN};
use crate::executor::limits::{Limits, MAX_NATIVE, cores};
use crate::executor::native::{Batch, Native};
use crate::executor::outbox::Urgency;
use crate::executor::protocol::{Task, TaskDone};
use crate::process::load;

/// A task that has run for longer is likely to be waiting for something.
const FRESH: Duration = Duration::from_millis(200);
/// Fresh tasks, for each processor, beyond which none is begun that would need another thread.
const FRESH_PER_CORE: usize = 2;
/// Threads, for each processor, that are started at a look although many tasks are fresh, while processors have nothing to do.
/// The next look sees whether these keep them busy.
const SPARE_PER_CORE: usize = 4;
/// How often it is looked whether more threads are needed, while agents wait.
const LOOK: Duration = Duration::from_millis(50);
/// Tasks of native handlers that a thread takes at once; those of one agent come in no larger number.
const BATCH: usize = 32;
/// How often hosts are looked at that are without work, and native handlers that may hang.
const TIDY: Duration = Duration::from_secs(1);
/// How long all runs of a full lane have gone on when that is reported, and how often it is.
const STUCK: Duration = Duration::from_secs(10);
const STUCK_AGAIN: Duration = Duration::from_secs(60);
/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_secs(10);

/// Says what came of a task, and whether that may wait for what is said next.
pub(crate) type Reply = Arc<dyn Fn(TaskDone, Urgency) + Send + Sync>;

/// All agents of an executor.
#[derive(Clone)]
pub(crate) struct Agents(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// An agent has a task, or the import of some modules has ended: for threads of the lanes.
    work: [Condvar; 2],
    /// Agents wait: for the keeper, which sees to it that there are enough threads.
    waiting: Condvar,
    /// Native runs that go on.
    watched: Mutex<Vec<Watched>>,
    hosts: Arc<Hosts>,
    ask: Ask,
    reply: Reply,
}

struct State {
    agents: HashMap<AgentName, Agent>,
    lanes: [Lane; 2],
    /// The keeper expects nothing before [`TIDY`] is over.
    is_keeper_at_rest: bool,
}

/// Native runs of an agent, and what another thread needs to go on with the agent.
struct Watched {
    batch: Arc<Batch>,
    agent: AgentName,
    native: Native,
    codes: Codes,
    began: Instant,
}

/// The code of each task.
type Codes = Vec<(ActionId, Arc<Code>)>;

struct Agent {
    tasks: VecDeque<Job>,
    /// `None`: a thread works for it.
    worker: Option<Worker>,
}

struct Job {
    task: Task,
    code: Arc<Code>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Native,
    Python,
}

/// The threads for one kind of handlers.
struct Lane {
    /// Agents that have a task, no thread, and a host at rest: they go first.
    warm: VecDeque<AgentName>,
    /// Other agents that have a task and no thread, by the code that they need.
    queues: HashMap<String, VecDeque<AgentName>>,
    /// The codes with agents, in the order of their turns.
    turns: VecDeque<String>,
    n_threads: usize,
    n_idle: usize,
    /// Those of the idle ones that have been woken and do not run yet.
    n_woken: usize,
    max_threads: usize,
    /// When tasks that run now were begun.
    begun: Vec<Instant>,
}

impl Agents {
    pub(crate) fn new(limits: Limits, ask: Ask, reply: Reply) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                agents: HashMap::new(),
                lanes: [Lane::new(MAX_NATIVE), Lane::new(limits.hosts)],
                is_keeper_at_rest: false,
            }),
            work: [Condvar::new(), Condvar::new()],
            waiting: Condvar::new(),
            watched: Mutex::default(),
            hosts: Hosts::new(limits),
            ask,
            reply,
        });
        let keeper = Arc::clone(&shared);
        // It ends with the process.
        thread::spawn(move || keeper.keep());
        Self(shared)
    }

    /// Gives agents tasks, each behind those that its agent has. Those that come together are taken together.
    pub(crate) fn give(&self, tasks: impl IntoIterator<Item = (Task, Arc<Code>)>) {
        let mut state = self.0.state();
        let mut woken = [0, 0];
        for (task, code) in tasks {
            if let Some(kind) = self.0.queue(&mut state, task, code) {
                woken[kind as usize] += 1;
            }
        }
        for kind in [Kind::Native, Kind::Python] {
            for _ in 0..woken[kind as usize] {
                self.0.wake(&mut state, kind);
            }
        }
    }

    /// Stops in order what has no work: the executor ends.
    pub(crate) fn stop(&self) {
        self.0.hosts.stop();
    }
}

impl Agent {
    /// Takes what is run next: the first task, and up to `most` behind it that are run in the same way, in Python with the same
    /// code.
    fn next(&mut self, kind: Kind, most: usize) -> Vec<Job> {
        let mut jobs: Vec<Job> = Vec::new();
        while jobs.len() < most
            && let Some(job) = self.tasks.front()
            && job.kind == kind
            && (kind == Kind::Native
                || jobs
                    .last()
                    .is_none_or(|last| Arc::ptr_eq(&last.code, &job.code)))
        {
            jobs.extend(self.tasks.pop_front());
        }
        jobs
    }
}

impl Agent {
    /// Puts what was not begun back to where it was taken from.
    fn give_back(&mut self, jobs: Vec<Job>) {
        jobs.into_iter()
            .rev()
            .for_each(|job| self.tasks.push_front(job));
    }
}

impl Job {
    fn code_of_action(&self) -> (ActionId, Arc<Code>) {
        (self.task.action, Arc::clone(&self.code))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a task behind those of its agent. Gives the lane in which the agent waits since then, if it does.
    fn queue(&self, state: &mut State, task: Task, code: Arc<Code>) -> Option<Kind> {
        let kind = match native_handler(&task.resource_type, &code) {
            Some(_) => Kind::Native,
            None => Kind::Python,
        };
        let name = task.agent.clone();
        let State { agents, lanes, .. } = state;
        let agent = agents.entry(name.clone()).or_insert_with(|| Agent {
            tasks: VecDeque::new(),
            worker: Some(Worker::new(name.clone(), Arc::clone(&self.ask))),
        });
        let is_first = agent.tasks.is_empty() && agent.worker.is_some();
        let job = Job { task, code, kind };
        if is_first {
            lanes[kind as usize].add(&job, name, &self.hosts);
        }
        agent.tasks.push_back(job);
        is_first.then_some(kind)
    }

    /// An agent waits in a lane: has a thread take it.
    fn wake(self: &Arc<Self>, state: &mut State, kind: Kind) {
        let lane = &mut state.lanes[kind as usize];
        // Each notification is a call of the kernel, and thousands of agents may begin to wait at once.
        if lane.n_idle > lane.n_woken {
            lane.n_woken += 1;
            self.work[kind as usize].notify_one();
        } else if lane.n_idle == 0 && lane.may_grow() {
            self.start_thread(lane, kind);
        }
        if std::mem::take(&mut state.is_keeper_at_rest) {
            self.waiting.notify_one();
        }
    }

    /// Whether processors have nothing to do, and nothing is on its way that would keep them busy.
    fn has_spare_processors(&self, kind: Kind) -> bool {
        let is_starting =
            kind == Kind::Python && self.hosts.n_starting() >= cores() * FRESH_PER_CORE;
        !is_starting && load::n_runnable().is_some_and(|n_runnable| n_runnable < cores())
    }

    fn start_thread(self: &Arc<Self>, lane: &mut Lane, kind: Kind) {
        lane.n_threads += 1;
        // Counted as a fresh task until it has begun one.
        let started = Instant::now();
        lane.begun.push(started);
        let shared = Arc::clone(self);
        thread::spawn(move || shared.work(kind, started));
    }

    /// The life of a thread: it takes agents that wait, until there was none for a while.
    fn work(self: &Arc<Self>, kind: Kind, started: Instant) {
        let mut state = self.state();
        state.lanes[kind as usize].is_done(started);
        loop {
            let Some(name) = state.lanes[kind as usize].take(&self.hosts) else {
                let lane = &mut state.lanes[kind as usize];
                lane.n_idle += 1;
                let waited = self.work[kind as usize].wait_timeout(state, IDLE);
                let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                state = woken;
                let lane = &mut state.lanes[kind as usize];
                lane.n_idle -= 1;
                lane.n_woken = lane.n_woken.saturating_sub(1);
                if timeout.timed_out() && !lane.is_wanted() {
                    lane.n_threads -= 1;
                    return;
                }
                continue;
            };
            match self.serve(state, name, kind) {
                Some(after) => state = after,
                None => return,
            }
        }
    }

    /// Works for an agent, for a turn. `None`: a handler has hung, and others have gone on without this thread.
    fn serve<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        name: AgentName,
        kind: Kind,
    ) -> Option<MutexGuard<'a, State>> {
        let began = Instant::now();
        let mut worker = None;
        let mut host = None;
        loop {
            let State { agents, lanes, .. } = &mut *state;
            let Some(agent) = agents.get_mut(&name) else {
                return Some(state);
            };
            let lane = &mut lanes[kind as usize];
            let is_over = began.elapsed() >= TURN && lane.is_wanted();
            let is_ours = |job: &&Job| job.kind == kind && !is_over;
            if agent.tasks.front().filter(is_ours).is_none() {
                // First the host: who takes the agent next finds it.
                if let Some(host) = host.take() {
                    self.hosts.rest(name.clone(), host);
                }
                if let Some(worker) = worker.or_else(|| agent.worker.take()) {
                    self.hand_on(&mut state, name, worker);
                }
                return Some(state);
            }
            let Some(mut at_work) = worker.take().or_else(|| agent.worker.take()) else {
                return Some(state);
            };
            let most = match (kind, &host) {
                (Kind::Native, _) => BATCH,
                (Kind::Python, Some(host)) => host.python.most_at_once(),
                (Kind::Python, None) => 1,
            };
            let jobs = agent.next(kind, most);
            // An answer that another one will follow, of this agent or of one that waits, can wait for that.
            let urgency = match agent.tasks.is_empty() && !lane.is_wanted() {
                true => Urgency::Now,
                false => Urgency::Soon,
            };
            let task_began = Instant::now();
            lane.begun.push(task_began);
            drop(state);
            let left = match kind {
                Kind::Native => {
                    if !self.run_native(&name, &at_work, jobs, urgency, task_began) {
                        return None;
                    }
                    Vec::new()
                }
                Kind::Python => self.run_python(&mut at_work, jobs, urgency, &mut host),
            };
            worker = Some(at_work);
            state = self.state();
            if let Some(agent) = state.agents.get_mut(&name) {
                agent.give_back(left);
            }
            state.lanes[kind as usize].is_done(task_began);
        }
    }

    /// Nobody works for an agent any more: it waits for its turn, if it has a task.
    fn hand_on(self: &Arc<Self>, state: &mut State, name: AgentName, worker: Worker) {
        let State { agents, lanes, .. } = state;
        let Some(agent) = agents.get_mut(&name) else {
            return;
        };
        agent.worker = Some(worker);
        if let Some(next) = agent.tasks.front() {
            let kind = next.kind;
            lanes[kind as usize].add(next, name, &self.hosts);
            self.wake(state, kind);
        }
    }

    /// Runs what was taken from an agent, with native handlers; `false`: one has hung, and the keeper has gone on with the agent.
    fn run_native(
        &self,
        agent: &AgentName,
        worker: &Worker,
        jobs: Vec<Job>,
        urgency: Urgency,
        began: Instant,
    ) -> bool {
        let codes: Codes = jobs.iter().map(Job::code_of_action).collect();
        let runs = jobs.into_iter().filter_map(|Job { task, code, .. }| {
            let handler = native_handler(&task.resource_type, &code)?;
            Some((handler, task))
        });
        let batch = worker.native().batch(runs, &self.reply, urgency);
        self.watched().push(Watched {
            batch: Arc::clone(&batch),
            agent: agent.clone(),
            native: worker.native().clone(),
            codes,
            began,
        });
        let is_ours = batch.work();
        if is_ours {
            let mut watched = self.watched();
            if let Some(at) = watched
                .iter()
                .position(|one| Arc::ptr_eq(&one.batch, &batch))
            {
                watched.swap_remove(at);
            }
        }
        is_ours
    }

    /// Runs what was taken from an agent, in Python and with the same code, and says what came of it: of the last one with this
    /// urgency. Gives what was not begun.
    fn run_python(
        &self,
        worker: &mut Worker,
        jobs: Vec<Job>,
        urgency: Urgency,
        host: &mut Option<Host>,
    ) -> Vec<Job> {
        let Some(code) = jobs.first().map(|job| Arc::clone(&job.code)) else {
            return jobs;
        };
        let tasks = jobs.into_iter().map(|job| job.task).collect();
        let reply = |done, is_last| {
            let urgency = if is_last { urgency } else { Urgency::Soon };
            (self.reply)(done, urgency);
        };
        let left = worker.run(tasks, &code, &self.hosts, host, reply);
        let job = |task| Job {
            task,
            code: Arc::clone(&code),
            kind: Kind::Python,
        };
        left.into_iter().map(job).collect()
    }

    fn watched(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on with the agents whose native handlers hang. Their threads end when the handlers do.
    fn leave_behind(self: &Arc<Self>) {
        let mut hanging = Vec::new();
        self.watched().retain(|one| {
            let Some(left) = one.native.take_if_over(&one.batch) else {
                return true;
            };
            let jobs: Vec<Job> = left
                .into_iter()
                .filter_map(|(_, task)| {
                    let mut codes = one.codes.iter();
                    let (_, code) = codes.find(|(action, _)| *action == task.action)?;
                    let (code, kind) = (Arc::clone(code), Kind::Native);
                    Some(Job { task, code, kind })
                })
                .collect();
            hanging.push((one.agent.clone(), one.native.clone(), jobs, one.began));
            false
        });
        for (name, native, jobs, began) in hanging {
            let mut state = self.state();
            let lane = &mut state.lanes[Kind::Native as usize];
            lane.is_done(began);
            lane.n_threads -= 1;
            if let Some(agent) = state.agents.get_mut(&name) {
                agent.give_back(jobs);
            }
            let worker = Worker::instead(name.clone(), Arc::clone(&self.ask), native);
            self.hand_on(&mut state, name, worker);
        }
    }

    /// Sees to it that lanes have enough threads, and that what is without work for too long goes.
    fn keep(self: &Arc<Self>) {
        let mut tidied = Instant::now();
        let mut reported: Option<Instant> = None;
        let mut state = self.state();
        loop {
            let is_waiting = state.lanes.iter().any(Lane::is_wanted);
            let pause = if is_waiting { LOOK } else { TIDY };
            state.is_keeper_at_rest = !is_waiting;
            let waited = self.waiting.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            for kind in [Kind::Native, Kind::Python] {
                let lane = &mut state.lanes[kind as usize];
                if !lane.is_wanted() {
                    continue;
                }
                // The import that they waited for may be over.
                lane.n_woken = lane.n_idle;
                self.work[kind as usize].notify_all();
                let has_spare = lane.n_idle == 0 && self.has_spare_processors(kind);
                for _ in 0..lane.n_wanted(lane.n_waiting(), has_spare) {
                    self.start_thread(lane, kind);
                }
            }
            if tidied.elapsed() >= TIDY {
                tidied = Instant::now();
                let lane = &state.lanes[Kind::Python as usize];
                let (n_runs, n_waiting) = (lane.begun.len(), lane.n_waiting());
                let is_stuck = lane.is_stuck(n_waiting);
                drop(state);
                if is_stuck && reported.is_none_or(|reported| reported.elapsed() >= STUCK_AGAIN) {
                    reported = Some(Instant::now());
                    tracing::warn!(
                        "all {n_runs} places for Python handlers have been taken for {} s, and other agents wait for one: \
                         `executor.hosts` of the configuration gives more, `deploy_timeout` ends handlers that hang earlier",
                        STUCK.as_secs()
                    );
                }
                self.leave_behind();
                self.hosts.tidy();
                state = self.state();
            }
        }
    }
}

impl Lane {
    fn new(max_threads: usize) -> Self {
        Self {
            warm: VecDeque::new(),
            queues: HashMap::new(),
            turns: VecDeque::new(),
            n_threads: 0,
            n_idle: 0,
            n_woken: 0,
            max_threads,
            begun: Vec::new(),
        }
    }

    /// Another thread would be of use: few tasks are fresh.
    fn may_grow(&self) -> bool {
        self.n_threads < self.max_threads && self.n_fresh() < cores() * FRESH_PER_CORE
    }

    /// How many more threads would be of use to so many agents that wait.
    fn n_wanted(&self, n_waiting: usize, has_spare_processors: bool) -> usize {
        if self.n_idle > 0 {
            return 0;
        }
        let few = (cores() * FRESH_PER_CORE).saturating_sub(self.n_fresh());
        let most = match has_spare_processors {
            true => few.max(cores() * SPARE_PER_CORE),
            false => few,
        };
        let left = self.max_threads.saturating_sub(self.n_threads);
        most.min(left).min(n_waiting)
    }

    /// Whether agents wait while runs take all places, none of which has ended or begun lately.
    fn is_stuck(&self, n_waiting: usize) -> bool {
        let is_old = |begun: &Instant| begun.elapsed() >= STUCK;
        n_waiting > 0 && self.begun.len() >= self.max_threads && self.begun.iter().all(is_old)
    }

    fn n_waiting(&self) -> usize {
        self.warm.len() + self.queues.values().map(VecDeque::len).sum::<usize>()
    }

    fn n_fresh(&self) -> usize {
        let fresh = self.begun.iter().filter(|begun| begun.elapsed() < FRESH);
        fresh.count()
    }

    /// Agents wait for a thread.
    fn is_wanted(&self) -> bool {
        !self.warm.is_empty() || !self.queues.is_empty()
    }

    /// What was begun then is done.
    fn is_done(&mut self, began: Instant) {
        if let Some(at) = self.begun.iter().position(|begun| *begun == began) {
            self.begun.swap_remove(at);
        }
    }

    /// An agent waits for a thread.
    fn add(&mut self, job: &Job, name: AgentName, hosts: &Hosts) {
        if job.kind == Kind::Python && hosts.is_warm(&name) {
            return self.warm.push_back(name);
        }
        let key = match job.kind {
            Kind::Native => "",
            Kind::Python => job.code.key.as_str(),
        };
        if !self.queues.contains_key(key) {
            self.turns.push_back(key.to_owned());
        }
        self.queues
            .entry(key.to_owned())
            .or_default()
            .push_back(name);
    }

    /// The agent whose turn it is. Of code that is being imported just now none is, since it would only wait.
    fn take(&mut self, hosts: &Hosts) -> Option<AgentName> {
        if let Some(name) = self.warm.pop_front() {
            return Some(name);
        }
        let at = self.turns.iter().position(|key| !hosts.is_loading(key))?;
        let key = self.turns.remove(at)?;
        let queue = self.queues.get_mut(&key)?;
        let name = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&key);
        } else {
            self.turns.push_back(key);
        }
        name
    }
}

#[cfg(test)]
mod tests;
