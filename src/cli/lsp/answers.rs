//! The answers to what an editor asks.

use lsp_types::request::{
    Completion, DocumentSymbolRequest, Formatting, GotoDefinition, HoverRequest, Request,
};
use lsp_types::{
    CompletionParams, CompletionResponse, DocumentFormattingParams, DocumentSymbolParams,
    DocumentSymbolResponse, GotoDefinitionParams, GotoDefinitionResponse, Hover, HoverContents,
    HoverParams, MarkupContent, MarkupKind, Position, Range, TextEdit,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use steward_compiler::format;
use steward_compiler::ide::Ide;

use super::convert;
use super::workspace::Workspace;

/// The result of a request; `None`: there is no such request.
pub fn answer(
    workspace: &mut Workspace,
    method: &str,
    params: Value,
) -> Option<serde_json::Result<Value>> {
    Some(match method {
        GotoDefinition::METHOD => with(params, |params| definition(workspace, params)),
        HoverRequest::METHOD => with(params, |params| hover(workspace, params)),
        Completion::METHOD => with(params, |params| completion(workspace, params)),
        DocumentSymbolRequest::METHOD => with(params, |params| symbols(workspace, &params)),
        Formatting::METHOD => with(params, |params| formatting(workspace, &params)),
        _ => return None,
    })
}

fn with<P: DeserializeOwned, R: Serialize>(
    params: Value,
    work: impl FnOnce(P) -> R,
) -> serde_json::Result<Value> {
    serde_json::to_value(work(serde_json::from_value(params)?))
}

fn definition(
    workspace: &mut Workspace,
    params: GotoDefinitionParams,
) -> Option<GotoDefinitionResponse> {
    let at = params.text_document_position_params;
    let open = workspace.open(&at.text_document.uri)?;
    let place = open
        .ide
        .definition(&open.name, convert::position(at.position))?;
    let location = convert::location(&place, &open.root)?;
    Some(GotoDefinitionResponse::Scalar(location))
}

fn hover(workspace: &mut Workspace, params: HoverParams) -> Option<Hover> {
    let at = params.text_document_position_params;
    let open = workspace.open(&at.text_document.uri)?;
    let (value, place) = open.ide.hover(&open.name, convert::position(at.position))?;
    Some(Hover {
        contents: HoverContents::Markup(MarkupContent {
            kind: MarkupKind::Markdown,
            value,
        }),
        range: Some(convert::range(&place)),
    })
}

fn completion(workspace: &mut Workspace, params: CompletionParams) -> Option<CompletionResponse> {
    let at = params.text_document_position;
    let open = workspace.open(&at.text_document.uri)?;
    let position = convert::position(at.position);
    let found = open
        .ide
        .completion(&open.world, &open.name, open.text, position);
    let items = found.into_iter().map(convert::completion).collect();
    Some(CompletionResponse::Array(items))
}

fn symbols(
    workspace: &mut Workspace,
    params: &DocumentSymbolParams,
) -> Option<DocumentSymbolResponse> {
    let (path, text) = workspace.text(&params.text_document.uri)?;
    let symbols = Ide::symbols(&path.display().to_string(), text).ok()?;
    let symbols = symbols.into_iter().map(convert::symbol).collect();
    Some(DocumentSymbolResponse::Nested(symbols))
}

/// The whole text at once: editors keep what did not change. A text with mistakes stays as it is.
fn formatting(
    workspace: &mut Workspace,
    params: &DocumentFormattingParams,
) -> Option<Vec<TextEdit>> {
    let (path, text) = workspace.text(&params.text_document.uri)?;
    let formatted = format(&path.display().to_string(), text).ok()?;
    if formatted == text {
        return Some(Vec::new());
    }
    let end = Position::new(text.lines().count() as u32 + 1, 0);
    let everything = Range::new(Position::new(0, 0), end);
    Some(vec![TextEdit::new(everything, formatted)])
}
