//! `steward::Checkout`: a working copy of a git repository at one commit, made and changed by the git of the host.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use steward_compiler::without_credentials;

use super::program::{Done, Program};
use super::{Attributes, Context, Error, Handler, change, differences, flag, is_not_there, owner};
use super::{parent, path, seconds, text};

/// For each command of git.
const DEFAULT_TIMEOUT_SECONDS: u64 = 300;
/// Names of changed files that a difference shows.
const SHOWN_CHANGES: usize = 20;
/// Hexadecimal digits of a commit id: SHA-1, or SHA-256.
const ID_LENGTHS: [usize; 2] = [40, 64];

/// Fetching is for the repository alone; its submodules come afterwards, if they are wanted.
const NO_SUBMODULES: &str = "--no-recurse-submodules";
/// What git makes while it changes a repository.
const LOCKS: &[&str] = &[
    "index.lock",
    "HEAD.lock",
    "config.lock",
    "shallow.lock",
    "packed-refs.lock",
];

pub(super) struct Checkout;

impl Handler for Checkout {
    fn read(
        &self,
        context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        check_arguments(desired)?;
        let path = path(desired)?;
        if flag(desired, "purged") && is_not_there(path) {
            return Ok(None);
        }
        if !is_copy(path)? {
            return Ok(None);
        }
        if flag(desired, "purged") {
            return Ok(Some(Attributes::new()));
        }
        check_owner(path)?;
        let address = ask(context, desired, &["config", "--get", "remote.origin.url"])?;
        let mut current =
            Attributes::from_iter([("repository".to_owned(), json!(address.stdout.trim()))]);
        let head = head(context, path, desired)?;
        let mut wanted = wanted(context, desired)?;
        if head.as_ref().is_some_and(|head| *head != wanted) {
            // The id of a tag with a message is not that of its commit.
            wanted = commit_of(context, desired, &wanted)?.unwrap_or(wanted);
        }
        current.insert("commit".to_owned(), json!(head));
        current.insert("wanted".to_owned(), json!(wanted));
        let changed = local_changes(context, desired)?;
        if !changed.is_empty() {
            current.insert("local_changes".to_owned(), json!(changed));
        }
        if flag(desired, "submodules") {
            let missing = missing_submodules(context, desired)?;
            if !missing.is_empty() {
                current.insert("missing_submodules".to_owned(), json!(missing));
            }
        }
        Ok(Some(current))
    }

    fn compare(&self, current: &Attributes, desired: &Attributes) -> Attributes {
        let mut changes = differences(current, desired);
        if let (Some(is), Some(shall)) = (current.get("commit"), current.get("wanted"))
            && is != shall
        {
            changes.extend([change("commit", is, shall)]);
        }
        if let Some(changed) = current.get("local_changes") {
            changes.extend([change("local_changes", changed, &json!([]))]);
        }
        if let Some(missing) = current.get("missing_submodules") {
            changes.extend([change("missing_submodules", missing, &json!([]))]);
        }
        if let Some(change) = changes.get_mut("repository") {
            let shown = |name: &str| json!(without_credentials(text_of(&change[name])));
            *change = json!({"current": shown("current"), "desired": shown("desired")});
        }
        changes
    }

    fn create(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path(desired)?;
        parent(path)?;
        let was_there = path.exists();
        let made = make(context, path, desired);
        if made.is_err() && !head(context, path, desired).is_ok_and(|head| head.is_some()) {
            // It would stand for a copy that is not what it shall be, though there is none.
            context.debug("removing the copy that could not be made");
            remove_contents(path, was_there);
        }
        made
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        changes: &Attributes,
    ) -> Result<(), Error> {
        remove_old_locks(context, path(desired)?, desired);
        if let Some(changed) = changes
            .get("local_changes")
            .filter(|_| !flag(desired, "force"))
        {
            let files = changed["current"].as_array().into_iter().flatten();
            let files: Vec<&str> = files.map(text_of).collect();
            return Err(Error::Failed(format!(
                "files of the working copy were changed by somebody ({}): commit or undo that, or set `force`",
                files.join(", ")
            )));
        }
        if changes.contains_key("repository") {
            // One that was interrupted even earlier is no repository yet; for others it changes nothing.
            init(context, desired)?;
            // A copy that was interrupted in its making may have none.
            let repository = text(desired, "repository");
            let config = ["config", "remote.origin.url", repository];
            run(context, desired, &config)?;
            let refs = [
                "config",
                "remote.origin.fetch",
                "+refs/heads/*:refs/remotes/origin/*",
            ];
            run(context, desired, &refs)?;
        }
        check_out(context, desired)
    }

    fn delete(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path(desired)?;
        owner::check_links_above(path)?;
        fs::remove_dir_all(path).map_err(Error::io("remove", path))
    }
}

fn make(context: &mut Context, path: &Path, desired: &Attributes) -> Result<(), Error> {
    if !path.exists() {
        fs::create_dir(path).map_err(Error::io("create", path))?;
    }
    check_owner(path)?;
    init(context, desired)?;
    let repository = text(desired, "repository");
    run(context, desired, &["remote", "add", "origin", repository])?;
    check_out(context, desired)
}

fn init(context: &mut Context, desired: &Attributes) -> Result<(), Error> {
    run(context, desired, &["init", "--quiet"])
}

/// Removes the locks of a git that was killed in the middle of its work, which would be in the way of every other one: those
/// that are older than any command of ours may take.
fn remove_old_locks(context: &mut Context, path: &Path, desired: &Attributes) {
    for name in LOCKS {
        let lock = path.join(".git").join(name);
        let changed = fs::symlink_metadata(&lock).and_then(|found| found.modified());
        let age = changed.ok().and_then(|changed| changed.elapsed().ok());
        if age.is_some_and(|age| age > limit(desired)) && fs::remove_file(&lock).is_ok() {
            context.warning(&format!(
                "a git was killed here and left {}, which is removed",
                lock.display()
            ));
        }
    }
}

/// What somebody has changed of the files that git knows. A submodule at another commit is none: it may be left of a deployment that
/// could not fetch it.
fn local_changes(context: &Context, desired: &Attributes) -> Result<Vec<String>, Error> {
    let mut changed = Vec::new();
    // Submodules that are not ours to check out are not ours to look into.
    let submodules = match flag(desired, "submodules") {
        true => "--ignore-submodules=untracked",
        false => "--ignore-submodules=all",
    };
    let status = [
        "status",
        "--porcelain=v2",
        "--untracked-files=no",
        submodules,
    ];
    let status = ask(context, desired, &status)?;
    for line in status.stdout.lines() {
        // How many fields are before the name depends on the kind of the line.
        let n_fields = match line.split(' ').next() {
            Some("1") => 9,
            Some("2") => 10,
            Some("u") => 11,
            _ => continue,
        };
        let fields: Vec<&str> = line.splitn(n_fields, ' ').collect();
        let (Some(letters), Some(submodule), Some(name)) =
            (fields.get(1), fields.get(2), fields.get(n_fields - 1))
        else {
            continue;
        };
        let is_only_moved = submodule.starts_with("SC.") && letters.starts_with('.');
        if !is_only_moved && changed.len() < SHOWN_CHANGES {
            changed.push(format!("{} {name}", letters.replace('.', " ")));
        }
    }
    Ok(changed)
}

/// The submodules, at any depth, that were never checked out, or whose commit is another one.
fn missing_submodules(context: &Context, desired: &Attributes) -> Result<Vec<String>, Error> {
    let status = ask(context, desired, &["submodule", "status", "--recursive"])?;
    let marked = status.stdout.lines().filter_map(|line| {
        let rest = line.strip_prefix(['-', '+'])?;
        let (_, name) = rest.split_once(' ')?;
        // Behind the name is what the commit is called.
        let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
        Some(name.to_owned())
    });
    Ok(marked.take(SHOWN_CHANGES).collect())
}

/// The commit that an object of the copy stands for; `None`: it is not there.
fn commit_of(context: &Context, desired: &Attributes, id: &str) -> Result<Option<String>, Error> {
    let object = format!("{id}^{{commit}}");
    let found = ask(
        context,
        desired,
        &["rev-parse", "--verify", "--quiet", &object],
    )?;
    let found = found.stdout.trim();
    Ok(is_id(found).then(|| found.to_owned()))
}

/// Takes away what was made at a path where nothing was, or an empty directory, which stays. What cannot be removed is in
/// the way of the next attempt, and that says so.
fn remove_contents(path: &Path, was_there: bool) {
    if !was_there {
        let _ = fs::remove_dir_all(path);
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let _ = if is_directory {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What begins with a minus would be an option of git.
fn check_arguments(desired: &Attributes) -> Result<(), Error> {
    for name in ["repository", "revision", "path"] {
        let value = text(desired, name);
        if value.is_empty() || value.starts_with('-') || value.contains(['\n', '\0']) {
            return Err(Error::Failed(format!("`{name}` {value:?} can not be one")));
        }
    }
    if !text(desired, "path").starts_with('/') {
        let message = "`path` is not absolute: begin it with a slash";
        return Err(Error::Failed(message.to_owned()));
    }
    Ok(())
}

/// Whether there is a working copy; an empty directory is none, and other things are in its way.
fn is_copy(path: &Path) -> Result<bool, Error> {
    if path.join(".git").exists() {
        return Ok(true);
    }
    match fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match path.is_symlink() {
            false => Ok(false),
            true => Err(Error::Failed(format!(
                "{} is a symlink that leads nowhere; remove it or create what it leads to",
                path.display()
            ))),
        },
        Err(_) if path.exists() && !path.is_dir() => Err(Error::Failed(format!(
            "{} is not a directory; remove it first",
            path.display()
        ))),
        Err(error) => Err(Error::io("look into", path)(error)),
        Ok(mut entries) => match entries.next() {
            None => Ok(false),
            Some(_) => Err(Error::Failed(format!(
                "{} is a directory with other things than a working copy; remove it first",
                path.display()
            ))),
        },
    }
}

/// Refuses a working copy of somebody else. Its configuration may name programs, which git would run with our rights, even to
/// compare: git refuses that as well, in words that say nothing of what to do.
fn check_owner(path: &Path) -> Result<(), Error> {
    let own = rustix::process::geteuid().as_raw();
    for place in [path, &path.join(".git")] {
        if let Ok(found) = fs::metadata(place)
            && found.uid() != own
        {
            return Err(Error::Failed(format!(
                "{} belongs to user {}, who could have git run programs as user {own}: give the working copy to user {own}, remove \
                 it, or name another path",
                place.display(),
                found.uid()
            )));
        }
    }
    Ok(())
}

/// The commit that is checked out; `None`: none yet.
fn head(context: &Context, path: &Path, desired: &Attributes) -> Result<Option<String>, Error> {
    // What we check out is named by its id; a person may have put a branch there.
    if let Ok(head) = fs::read_to_string(path.join(".git/HEAD"))
        && is_id(head.trim())
    {
        return Ok(Some(head.trim().to_owned()));
    }
    let done = ask(
        context,
        desired,
        &["rev-parse", "--verify", "--quiet", "HEAD"],
    )?;
    let id = done.stdout.trim();
    Ok(is_id(id).then(|| id.to_owned()))
}

fn is_id(text: &str) -> bool {
    ID_LENGTHS.contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// The commit that the revision means now: asked of the repository, unless it is an id.
fn wanted(context: &Context, desired: &Attributes) -> Result<String, Error> {
    let revision = text(desired, "revision");
    if is_id(revision) {
        return Ok(revision.to_ascii_lowercase());
    }
    let repository = text(desired, "repository");
    // What a tag with a message stands for.
    let peeled = format!("{revision}^{{}}");
    let program = set(Program::asking("git")?.limit(limit(desired)), desired)
        .arguments(["ls-remote", "--", repository, revision, &peeled])
        .shown_as("git ls-remote".to_owned());
    let done = program.run(context)?;
    if !done.status.success() {
        return Err(refused(desired, "ls-remote", &done));
    }
    let found = |name: String| {
        let mut lines = done.stdout.lines().filter_map(|line| line.split_once('\t'));
        lines.find_map(|(id, found)| (found == name).then(|| id.to_owned()))
    };
    // A tag with a message is an object of its own; what it stands for has a mark behind the name.
    let names = [
        format!("refs/tags/{revision}^{{}}"),
        format!("refs/tags/{revision}"),
        format!("refs/heads/{revision}"),
        revision.to_owned(),
    ];
    names.into_iter().find_map(found).ok_or_else(|| {
        let shown = without_credentials(repository);
        if revision == "HEAD" {
            return Error::Failed(format!(
                "{shown} names no main branch that has a commit: push one, or say which `revision` is meant"
            ));
        }
        Error::Failed(format!(
            "{shown} has no branch or tag `{revision}`; a commit is named by its full id"
        ))
    })
}

fn check_out(context: &mut Context, desired: &Attributes) -> Result<(), Error> {
    let commit = wanted(context, desired)?;
    if !has(context, desired, &commit)? {
        let revision = text(desired, "revision");
        let depth = desired.get("depth").and_then(Value::as_u64);
        let all = [
            "fetch",
            "--quiet",
            "--tags",
            "--force",
            NO_SUBMODULES,
            "origin",
        ];
        match depth {
            None => run(context, desired, &all)?,
            Some(depth) => {
                let depth = format!("--depth={depth}");
                let part = [
                    "fetch",
                    "--quiet",
                    &depth,
                    NO_SUBMODULES,
                    "origin",
                    revision,
                ];
                if let Err(error) = run(context, desired, &part) {
                    // Not every server gives a commit that is named by its id alone.
                    context.debug(&format!("{error}; fetching all"));
                    run(context, desired, &all)?;
                }
            }
        }
        if !has(context, desired, &commit)? {
            return Err(Error::Failed(format!(
                "{} has no commit {commit}",
                without_credentials(text(desired, "repository"))
            )));
        }
    }
    let mut arguments = vec!["checkout", "--quiet", "--detach"];
    if flag(desired, "force") {
        arguments.push("--force");
    }
    arguments.push(&commit);
    run(context, desired, &arguments)?;
    if flag(desired, "submodules") {
        // Their addresses may have changed.
        run(
            context,
            desired,
            &["submodule", "--quiet", "sync", "--recursive"],
        )?;
        let mut update = vec!["submodule", "--quiet", "update", "--init", "--recursive"];
        if flag(desired, "force") {
            update.push("--force");
        }
        run(context, desired, &update)?;
    }
    Ok(())
}

/// Whether the copy has a commit already.
fn has(context: &Context, desired: &Attributes, commit: &str) -> Result<bool, Error> {
    let object = format!("{commit}^{{commit}}");
    let done = ask(context, desired, &["cat-file", "-e", &object])?;
    Ok(done.status.success())
}

fn run(context: &mut Context, desired: &Attributes, arguments: &[&str]) -> Result<(), Error> {
    let verb = arguments[0];
    context.debug(&format!("running `git {verb}`"));
    let program = Program::changing("git", limit(desired))?;
    let done = in_copy(program, desired, arguments).run(context)?;
    if done.status.success() {
        return Ok(());
    }
    Err(refused(desired, verb, &done))
}

/// What git said, without a password that the address may have.
fn refused(desired: &Attributes, verb: &str, done: &Done) -> Error {
    let repository = text(desired, "repository");
    let shown = done.shown();
    let shown = shown.replace(repository, &without_credentials(repository));
    Error::Failed(format!("`git {verb}` ended with {}{shown}", done.status))
}

/// A question to git about the working copy.
fn ask(context: &Context, desired: &Attributes, arguments: &[&str]) -> Result<Done, Error> {
    let program = Program::asking("git")?.limit(limit(desired));
    in_copy(program, desired, arguments).run(context)
}

fn limit(desired: &Attributes) -> Duration {
    seconds(desired, "timeout", DEFAULT_TIMEOUT_SECONDS)
}

/// A command of git in the working copy. Messages have its first word only: an address may have a password.
fn in_copy(git: Program, desired: &Attributes, arguments: &[&str]) -> Program {
    set(git, desired)
        .arguments(["-C", text(desired, "path")])
        .arguments(arguments.iter().copied())
        .shown_as(format!("git {}", arguments[0]))
}

/// git that asks nobody, with the keys and settings of our user.
fn set(git: Program, desired: &Attributes) -> Program {
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective());
    let home = user.ok().flatten().map(|user| user.dir);
    let home = home.unwrap_or_else(|| Path::new("/").to_owned());
    // A copy that is no repository yet is not a part of one around it.
    let above = Path::new(text(desired, "path")).parent();
    let above = above.unwrap_or_else(|| Path::new("/")).to_string_lossy();
    git.variable("HOME", &home.to_string_lossy())
        .variable("GIT_CEILING_DIRECTORIES", &above)
        .variable("GIT_TERMINAL_PROMPT", "0")
        .variable("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
}
