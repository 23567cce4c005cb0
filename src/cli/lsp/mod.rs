//! `steward lsp`: the language server protocol over standard input and output.
//!
//! One thread takes messages in order; two more, of `lsp-server`, read and write. A change marks its project; when the
//! editor pauses, the project is read again and its diagnostics are published. A question about a marked project reads it
//! first. All answers come from [`steward_compiler::ide`]; nothing of a project is executed. It ends when the editor says
//! so, or is gone.

mod answers;
mod convert;
mod workspace;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidChangeWatchedFiles, DidCloseTextDocument, DidOpenTextDocument,
    DidSaveTextDocument, Notification as _,
};
use lsp_types::{
    CompletionOptions, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, DidSaveTextDocumentParams, HoverProviderCapability, OneOf,
    ServerCapabilities, TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions,
    TextDocumentSyncSaveOptions,
};

use super::TROUBLE;
use workspace::Workspace;

/// So long after the last change a project is read again.
const PAUSE: Duration = Duration::from_millis(200);

#[expect(clippy::print_stderr, reason = "standard output is the protocol's")]
pub(super) fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("steward: {error}");
            ExitCode::from(TROUBLE)
        }
    }
}

fn serve() -> Result<(), Box<dyn Error + Sync + Send>> {
    let (connection, threads) = Connection::stdio();
    let (id, _) = connection.initialize_start()?;
    connection.initialize_finish(
        id,
        serde_json::json!({
            "capabilities": capabilities(),
            "serverInfo": { "name": "steward", "version": env!("CARGO_PKG_VERSION") },
        }),
    )?;
    let ended = listen(&connection);
    // The writer ends when nobody can send to it any more.
    drop(connection);
    threads.join()?;
    ended
}

fn capabilities() -> ServerCapabilities {
    ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncCapability::Options(
            TextDocumentSyncOptions {
                open_close: Some(true),
                change: Some(TextDocumentSyncKind::FULL),
                save: Some(TextDocumentSyncSaveOptions::Supported(true)),
                ..TextDocumentSyncOptions::default()
            },
        )),
        definition_provider: Some(OneOf::Left(true)),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        completion_provider: Some(CompletionOptions {
            trigger_characters: Some([".", ":", "("].map(str::to_owned).to_vec()),
            ..CompletionOptions::default()
        }),
        document_symbol_provider: Some(OneOf::Left(true)),
        document_formatting_provider: Some(OneOf::Left(true)),
        ..ServerCapabilities::default()
    }
}

fn listen(connection: &Connection) -> Result<(), Box<dyn Error + Sync + Send>> {
    let mut workspace = Workspace::default();
    loop {
        let message = match workspace.due() {
            None => connection.receiver.recv().ok(),
            Some(due) => {
                let wait = due.saturating_duration_since(Instant::now());
                match connection.receiver.recv_timeout(wait) {
                    Ok(message) => Some(message),
                    Err(error) if error.is_timeout() => {
                        for published in workspace.refresh() {
                            connection.sender.send(published.into())?;
                        }
                        continue;
                    }
                    Err(_) => None,
                }
            }
        };
        match message {
            // The editor is gone.
            None => return Ok(()),
            Some(Message::Request(request)) => {
                if connection.handle_shutdown(&request)? {
                    return Ok(());
                }
                let response = answer(&mut workspace, request);
                connection.sender.send(response.into())?;
            }
            Some(Message::Notification(notification)) => note(&mut workspace, notification),
            Some(Message::Response(_)) => {}
        }
    }
}

fn answer(workspace: &mut Workspace, request: Request) -> Response {
    let Request { id, method, params } = request;
    match answers::answer(workspace, &method, params) {
        Some(Ok(result)) => Response::new_ok(id, result),
        Some(Err(error)) => Response::new_err(
            id,
            ErrorCode::InvalidParams as i32,
            format!("the parameters of {method} are not understood: {error}"),
        ),
        None => Response::new_err(
            id,
            ErrorCode::MethodNotFound as i32,
            format!("there is no {method}"),
        ),
    }
}

/// What the editor tells. What is not understood is none of our business.
fn note(workspace: &mut Workspace, notification: Notification) {
    let Notification { method, params } = notification;
    match method.as_str() {
        DidOpenTextDocument::METHOD => {
            if let Ok(params) = serde_json::from_value::<DidOpenTextDocumentParams>(params) {
                let document = params.text_document;
                workspace.set(&document.uri, document.text, Duration::ZERO);
            }
        }
        DidChangeTextDocument::METHOD => {
            if let Ok(mut params) = serde_json::from_value::<DidChangeTextDocumentParams>(params)
                && let Some(change) = params.content_changes.pop()
            {
                workspace.set(&params.text_document.uri, change.text, PAUSE);
            }
        }
        DidSaveTextDocument::METHOD => {
            if let Ok(params) = serde_json::from_value::<DidSaveTextDocumentParams>(params) {
                workspace.touch(&params.text_document.uri);
            }
        }
        DidCloseTextDocument::METHOD => {
            if let Ok(params) = serde_json::from_value::<DidCloseTextDocumentParams>(params) {
                workspace.close(&params.text_document.uri);
            }
        }
        DidChangeWatchedFiles::METHOD => workspace.touch_all(),
        _ => {}
    }
}
