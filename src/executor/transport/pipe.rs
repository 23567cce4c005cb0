//! An executor on this machine: a child process, spoken to over its standard input and output.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::future::BoxFuture;
use tokio::process::Child;

use super::{Connection, RemoteProcess, Transport};
use crate::executor::limits::Limits;
use crate::executor::variables::Variables;
use crate::process;

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) limits: Limits,
    /// Of the environment of the executor's process, which its Python hosts inherit.
    pub(crate) variables: Variables,
}

impl Transport for Pipe {
    fn connect(&self) -> io::Result<Connection> {
        let mut arguments = vec!["executor".to_owned()];
        // It makes files of the host, which are not for the server's user only.
        if let Some(umask) = process::original_umask() {
            arguments.extend(["--umask".to_owned(), umask]);
        }
        let Limits {
            hosts,
            keep,
            import,
            connections: _,
        } = self.limits;
        arguments.extend(["--hosts".to_owned(), hosts.to_string()]);
        arguments.extend(["--keep".to_owned(), keep.as_secs().to_string()]);
        arguments.extend(["--import-timeout".to_owned(), import.as_secs().to_string()]);
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let mut child = process::spawn_own(&arguments, variables)?;
        let missing = |which: &str| io::Error::other(format!("no pipe {which} the executor"));
        let stdin = child.stdin.take().ok_or_else(|| missing("to"))?;
        let stdout = child.stdout.take().ok_or_else(|| missing("from"))?;
        Ok(Connection {
            commands: Box::new(stdin),
            replies: Box::new(stdout),
            process: Box::new(child),
            is_reached: Arc::new(AtomicBool::new(true)),
        })
    }
}

impl RemoteProcess for Child {
    fn ended(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let _ = self.wait().await;
        })
    }

    fn status(&mut self) -> Option<String> {
        process::ended(self).map(|status| status.to_string())
    }

    fn end(&mut self) {
        process::kill_group(self);
    }

    fn abort(&mut self) {
        if let Some(pid) = self.id() {
            process::kill_tree(pid);
        }
        process::kill_group(self);
    }
}
