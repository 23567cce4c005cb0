//! One watcher of files for all environments.
//!
//! Each watcher of its own would take a thread and an instance of inotify, of which Linux gives a user 128: the environments
//! behind them would be polled only. What is watched together may overlap (a folder and a repository in it, two
//! environments of one repository), so places are counted, and what a removal takes away from others is watched again.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use notify::event::{EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

/// A file or folder, and whether all below it is meant as well.
pub type Place = (PathBuf, RecursiveMode);

/// What is watched, and who wants to know.
#[derive(Clone, Default)]
pub struct Files {
    /// Taken by the watcher's thread for each event: never held while the watcher is asked for something, since that waits
    /// for this thread.
    listeners: Arc<Mutex<Listeners>>,
    watched: Arc<Mutex<Watched>>,
}

#[derive(Default)]
struct Listeners {
    next: u64,
    all: HashMap<u64, Listener>,
}

struct Listener {
    places: Vec<Place>,
    changed: mpsc::Sender<()>,
}

#[derive(Default)]
struct Watched {
    watcher: Option<RecommendedWatcher>,
    /// How many listeners have each place: with all below it, and without. What is below a folder comes right behind it.
    places: BTreeMap<PathBuf, Count>,
}

impl Watched {
    /// As a path has to be watched: also as a part of a folder of which all is. The watcher knows one mode of each path.
    fn mode(&self, path: &Path) -> RecursiveMode {
        let is_recursive = |path: &Path| {
            self.places
                .get(path)
                .is_some_and(|count| count.recursive > 0)
        };
        if path.ancestors().any(is_recursive) {
            RecursiveMode::Recursive
        } else {
            RecursiveMode::NonRecursive
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Count {
    recursive: usize,
    plain: usize,
}

impl Count {
    fn of(&mut self, mode: RecursiveMode) -> &mut usize {
        match mode {
            RecursiveMode::Recursive => &mut self.recursive,
            RecursiveMode::NonRecursive => &mut self.plain,
        }
    }
}

/// The places of one listener, which are watched for as long as this lives.
pub struct Subscription {
    files: Files,
    number: u64,
    /// Receives when something has changed; several changes may be one message.
    pub changes: mpsc::Receiver<()>,
}

impl Files {
    /// Watches places. Fails, and watches none of them, when one cannot be watched.
    pub fn subscribe(&self, places: Vec<Place>) -> notify::Result<Subscription> {
        let (changed, changes) = mpsc::channel(1);
        let number = {
            let mut listeners = lock(&self.listeners);
            listeners.next += 1;
            let number = listeners.next;
            let listener = Listener {
                places: Vec::new(),
                changed,
            };
            listeners.all.insert(number, listener);
            number
        };
        // From here on what was begun ends with the subscription.
        let subscription = Subscription {
            files: self.clone(),
            number,
            changes,
        };
        for place in places {
            // First who wants to know, then the watch: no event in between is lost.
            if let Some(listener) = lock(&self.listeners).all.get_mut(&number) {
                listener.places.push(place.clone());
            }
            self.add(&place)?;
        }
        Ok(subscription)
    }

    fn add(&self, (path, mode): &Place) -> notify::Result<()> {
        let mut watched = lock(&self.watched);
        // Counted even if it cannot be watched: the subscription gives back what it has.
        let count = watched.places.entry(path.clone()).or_default();
        *count.of(*mode) += 1;
        let mode = watched.mode(path);
        // Also what is watched already: the folder may be another one by now.
        self.watcher(&mut watched)?.watch(path, mode)
    }

    fn remove(&self, (path, mode): &Place) {
        let mut watched = lock(&self.watched);
        let Some(count) = watched.places.get_mut(path) else {
            return;
        };
        *count.of(*mode) -= 1;
        if *count.of(*mode) > 0 {
            return;
        }
        if *count == Count::default() {
            watched.places.remove(path);
        }
        // The removal takes from all below it, and from a folder around it of which all is watched.
        let below = watched.places.range(path.clone()..);
        let below = below.take_while(|(other, _)| other.starts_with(path));
        let around = path.ancestors().skip(1);
        let around = around.filter_map(|other| watched.places.get_key_value(other));
        let overlapping: Vec<Place> = around
            .chain(below)
            .map(|(other, _)| (other.clone(), watched.mode(other)))
            .collect();
        let Some(watcher) = &mut watched.watcher else {
            return;
        };
        // A place that is gone from the disk is watched no more as it is.
        let _ = watcher.unwatch(path);
        for (other, mode) in overlapping {
            if let Err(error) = watcher.watch(&other, mode) {
                tracing::warn!(%error, "cannot watch {}; it is polled instead", other.display());
            }
        }
    }

    /// The watcher, which is made when the first place is watched.
    fn watcher<'a>(&self, watched: &'a mut Watched) -> notify::Result<&'a mut RecommendedWatcher> {
        if watched.watcher.is_none() {
            let listeners = Arc::clone(&self.listeners);
            let on_event = move |event: notify::Result<notify::Event>| {
                lock(&listeners).dispatch(event.as_ref());
            };
            watched.watcher = Some(notify::recommended_watcher(on_event)?);
        }
        watched
            .watcher
            .as_mut()
            .ok_or_else(|| notify::Error::generic("there is no watcher"))
    }
}

impl Listeners {
    /// Passes an event on to all whose places it may be in.
    fn dispatch(&self, event: Result<&notify::Event, &notify::Error>) {
        let (paths, is_for_all) = match event {
            Ok(event) => {
                // Reading is no change: our own fetch would wake us for ever.
                let is_change = !matches!(
                    event.kind,
                    EventKind::Access(_)
                        | EventKind::Modify(ModifyKind::Metadata(_))
                        | EventKind::Other
                );
                if !is_change && !event.need_rescan() {
                    return;
                }
                (&event.paths, event.need_rescan())
            }
            Err(error) => (&error.paths, false),
        };
        for listener in self.all.values() {
            let concerns = |path: &PathBuf| listener.places.iter().any(|place| holds(place, path));
            if is_for_all || paths.is_empty() || paths.iter().any(concerns) {
                // A full channel holds the news already.
                let _ = listener.changed.try_send(());
            }
        }
    }
}

/// Whether an event of this path is one of the place.
fn holds((place, mode): &Place, path: &Path) -> bool {
    match mode {
        RecursiveMode::Recursive => path.starts_with(place),
        RecursiveMode::NonRecursive => path == place || path.parent() == Some(place.as_path()),
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let listener = lock(&self.files.listeners).all.remove(&self.number);
        for place in listener.into_iter().flat_map(|listener| listener.places) {
            self.files.remove(&place);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn has_changed(subscription: &mut Subscription) -> bool {
        let news = subscription.changes.recv();
        tokio::time::timeout(Duration::from_secs(30), news)
            .await
            .is_ok()
    }

    /// What has come until now, after an event of something else, of which there is no other one.
    fn has_news(subscription: &mut Subscription) -> bool {
        subscription.changes.try_recv().is_ok()
    }

    #[tokio::test]
    async fn each_listener_hears_of_its_own_places() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        std::fs::create_dir_all(one.join("deep")).unwrap();
        std::fs::create_dir_all(two.join("deep")).unwrap();
        let files = Files::default();
        let subscribe = |path: &Path, mode| files.subscribe(vec![(path.to_owned(), mode)]).unwrap();
        let mut all = subscribe(&one, RecursiveMode::Recursive);
        let mut plain = subscribe(&two, RecursiveMode::NonRecursive);
        std::fs::write(one.join("deep/file"), "1").unwrap();
        assert!(has_changed(&mut all).await);
        assert!(!has_news(&mut plain));
        std::fs::write(two.join("deep/file"), "1").unwrap();
        std::fs::write(two.join("file"), "1").unwrap();
        assert!(has_changed(&mut plain).await);
    }

    /// Given: places that overlap in every way. Expected: when one subscription ends, each other one hears of its places as before.
    #[tokio::test]
    async fn what_overlaps_stays_watched_when_a_part_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner) = (dir.path().join("outer"), dir.path().join("outer/inner"));
        std::fs::create_dir_all(inner.join("deep")).unwrap();
        let all = [
            (outer.clone(), RecursiveMode::Recursive),
            (outer.clone(), RecursiveMode::NonRecursive),
            (inner.clone(), RecursiveMode::Recursive),
            (inner.clone(), RecursiveMode::NonRecursive),
            (inner.join("deep"), RecursiveMode::Recursive),
        ];
        for (at, ended) in all.iter().enumerate() {
            let files = Files::default();
            let subscribe = |place: &Place| files.subscribe(vec![place.clone()]).unwrap();
            let leaves = subscribe(ended);
            let mut stay: Vec<(Place, Subscription)> = all
                .iter()
                .map(|place| (place.clone(), subscribe(place)))
                .collect();
            drop(leaves);
            stay.remove(at);
            for (place, subscription) in &mut stay {
                std::fs::write(place.0.join(format!("file{at}")), "1").unwrap();
                assert!(
                    has_changed(subscription).await,
                    "{place:?} without {ended:?}"
                );
            }
            drop(stay);
            assert!(lock(&files.watched).places.is_empty());
        }
    }

    /// Given: a folder of which all is watched, and one in it of which others watch only what is right in it. Expected: who watches
    /// all hears of what happens in a folder that is new there.
    #[tokio::test]
    async fn who_watches_all_hears_of_new_folders_in_what_others_watch() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let files = Files::default();
        let subscribe = |path: &Path, mode| files.subscribe(vec![(path.to_owned(), mode)]).unwrap();
        let mut all = subscribe(dir.path(), RecursiveMode::Recursive);
        let _plain = subscribe(&inner, RecursiveMode::NonRecursive);
        std::fs::create_dir(inner.join("new")).unwrap();
        assert!(has_changed(&mut all).await);
        // Of the folder itself there may be one more.
        for _ in 0..3 {
            let began = std::time::Instant::now();
            while !has_news(&mut all) {
                assert!(
                    began.elapsed() < Duration::from_secs(30),
                    "nothing was heard"
                );
                std::fs::write(inner.join("new/file"), "1").unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    #[tokio::test]
    async fn a_place_that_does_not_exist_is_an_error_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::default();
        let places =
            ["here", "nowhere"].map(|name| (dir.path().join(name), RecursiveMode::Recursive));
        std::fs::create_dir(&places[0].0).unwrap();
        assert!(files.subscribe(places.to_vec()).is_err());
        assert!(lock(&files.watched).places.is_empty());
        assert!(lock(&files.listeners).all.is_empty());
    }

    /// Given: more places than Linux gives a user instances of inotify. Expected: all are watched.
    #[tokio::test]
    async fn many_places_take_one_watcher() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::default();
        let mut all: Vec<(PathBuf, Subscription)> = (0..300)
            .map(|number| {
                let path = dir.path().join(number.to_string());
                std::fs::create_dir(&path).unwrap();
                let places = vec![(path.clone(), RecursiveMode::Recursive)];
                (path, files.subscribe(places).unwrap())
            })
            .collect();
        for (path, subscription) in &mut all {
            std::fs::write(path.join("file"), "1").unwrap();
            assert!(has_changed(subscription).await);
        }
    }
}
