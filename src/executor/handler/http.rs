//! `steward::HttpObject`: an object of an HTTP service that talks JSON.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use steward_compiler::without_credentials;
use ureq::http::{Request, StatusCode};

use super::{
    Attributes, Context, Error, HIDDEN, Handler, change, fetch, flag, seconds, text, texts,
};
use crate::executor::secret_names::is_secret;

const DEFAULT_TIMEOUT_SECONDS: u64 = 30;
/// Of one answer.
const ANSWER_BYTES: u64 = 16 * 1024 * 1024;
/// Of an answer that says what is wrong.
const SHOWN_BYTES: usize = 1000;
/// A shorter secret is hidden nowhere: as a part of words it would hide half of the answer.
const MIN_SECRET: usize = 4;

pub(super) struct HttpObject;

impl Handler for HttpObject {
    fn read(
        &self,
        context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let object = get(context, desired)?;
        Ok(object.map(|object| Attributes::from_iter([("object".to_owned(), object)])))
    }

    fn compare(&self, current: &Attributes, desired: &Attributes) -> Attributes {
        let mut changes = Attributes::new();
        if let Some(object) = current.get("object").filter(|_| !flag(desired, "purged")) {
            compare(
                object,
                body(desired),
                "body",
                &secret(desired),
                &mut changes,
            );
        }
        changes
    }

    fn create(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let url = match text(desired, "create_url") {
            "" => text(desired, "url"),
            url => url,
        };
        let method = text(desired, "create_method");
        send(context, desired, method, url, Some(body(desired)))
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        let (method, url) = (text(desired, "update_method"), text(desired, "url"));
        if method != "PATCH" {
            return send(context, desired, method, url, Some(body(desired)));
        }
        let current = get(context, desired)?.unwrap_or_default();
        let part = different_part(&current, body(desired), &secret(desired));
        send(
            context,
            desired,
            method,
            url,
            Some(&part.unwrap_or_default()),
        )
    }

    fn delete(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        send(context, desired, "DELETE", text(desired, "url"), None)
    }
}

fn body(desired: &Attributes) -> &Value {
    desired.get("body").unwrap_or(&Value::Null)
}

/// The members whose values are not shown.
fn secret(desired: &Attributes) -> Vec<&str> {
    texts(desired, "secret_members").unwrap_or_default()
}

/// Adds a change for every member that `shall` has and `is` has otherwise. A member that is missing is as good as null, and
/// a secret one that is missing is one that the service does not tell.
fn compare(is: &Value, shall: &Value, at: &str, secrets: &[&str], changes: &mut Attributes) {
    let (Value::Object(all), Value::Object(wanted)) = (is, shall) else {
        if !is_same(is, shall, secrets) {
            changes.extend([change(
                at,
                &without_secrets(is, secrets),
                &without_secrets(shall, secrets),
            )]);
        }
        return;
    };
    for (name, shall) in wanted {
        let is = all.get(name);
        let at = format!("{at}.{name}");
        if !secrets.contains(&name.as_str()) {
            compare(is.unwrap_or(&Value::Null), shall, &at, secrets, changes);
        } else if is.is_some_and(|is| !is_same(is, shall, &[])) {
            changes.extend([change(&at, &json!(HIDDEN), &json!(HIDDEN))]);
        }
    }
}

/// What of `shall` is otherwise in `is`, with the objects around it.
fn different_part(is: &Value, shall: &Value, secrets: &[&str]) -> Option<Value> {
    let (Value::Object(all), Value::Object(wanted)) = (is, shall) else {
        return (!is_same(is, shall, secrets)).then(|| shall.clone());
    };
    let mut part = Map::new();
    for (name, shall) in wanted {
        let is = all.get(name);
        if is.is_none() && secrets.contains(&name.as_str()) {
            continue;
        }
        if let Some(different) = different_part(is.unwrap_or(&Value::Null), shall, secrets) {
            part.insert(name.clone(), different);
        }
    }
    (!part.is_empty()).then_some(Value::Object(part))
}

/// Equal values; of numbers, 1 and 1.0 are. A secret member that is missing is one that the service does not tell.
fn is_same(is: &Value, shall: &Value, secrets: &[&str]) -> bool {
    match (is, shall) {
        (Value::Number(is), Value::Number(shall)) => is == shall || is.as_f64() == shall.as_f64(),
        (Value::Array(is), Value::Array(shall)) => {
            let mut pairs = is.iter().zip(shall);
            is.len() == shall.len() && pairs.all(|(is, shall)| is_same(is, shall, secrets))
        }
        (Value::Object(is), Value::Object(shall)) => {
            is.keys().all(|name| shall.contains_key(name))
                && shall.iter().all(|(name, shall)| match is.get(name) {
                    Some(is) => is_same(is, shall, secrets),
                    None => secrets.contains(&name.as_str()),
                })
        }
        _ => is == shall,
    }
}

/// A value without what its secret members are.
fn without_secrets(value: &Value, secrets: &[&str]) -> Value {
    match value {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let value = match secrets.contains(&name.as_str()) {
                    true => json!(HIDDEN),
                    false => without_secrets(value, secrets),
                };
                (name.clone(), value)
            };
            Value::Object(members.iter().map(member).collect())
        }
        Value::Array(items) => items
            .iter()
            .map(|item| without_secrets(item, secrets))
            .collect(),
        _ => value.clone(),
    }
}

/// The object as it is; `None`: there is none.
fn get(context: &Context, desired: &Attributes) -> Result<Option<Value>, Error> {
    let url = text(desired, "url");
    let (status, answer) = request(context, desired, "GET", url, None)?;
    if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
        return Ok(None);
    }
    if !status.is_success() {
        return Err(refused(desired, "GET", url, status, &answer));
    }
    if flag(desired, "purged") {
        // That it is there is all that matters.
        return Ok(Some(Value::Null));
    }
    let shown = without_credentials(url);
    let object: Value = serde_json::from_str(&answer)
        .map_err(|error| Error::Failed(format!("GET {shown} answers with no JSON: {error}")))?;
    let pointer = text(desired, "read_at");
    let found = object.pointer(pointer).cloned();
    found.map(Some).ok_or_else(|| {
        Error::Failed(format!(
            "the answer of {shown} has nothing at `{pointer}`; `read_at` is a JSON pointer such as /data"
        ))
    })
}

fn send(
    context: &mut Context,
    desired: &Attributes,
    method: &str,
    url: &str,
    body: Option<&Value>,
) -> Result<(), Error> {
    let (status, answer) = request(context, desired, method, url, body)?;
    let is_gone = method == "DELETE" && matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
    if !status.is_success() && !is_gone {
        return Err(refused(desired, method, url, status, &answer));
    }
    let shown = without_credentials(url);
    context.info(&format!("{method} {shown} answers {status}"));
    Ok(())
}

fn request(
    context: &Context,
    desired: &Attributes,
    method: &str,
    url: &str,
    body: Option<&Value>,
) -> Result<(StatusCode, String), Error> {
    let shown = without_credentials(url);
    let limit: Duration = seconds(desired, "timeout", DEFAULT_TIMEOUT_SECONDS);
    let (address, login) = fetch::with_login(url);
    let mut request = Request::builder().method(method).uri(address);
    let headers = desired.get("headers").and_then(Value::as_object);
    let has = |name: &str| {
        headers.is_some_and(|all| all.keys().any(|header| header.eq_ignore_ascii_case(name)))
    };
    if !has("accept") {
        request = request.header("Accept", "application/json");
    }
    if body.is_some() && !has("content-type") {
        request = request.header("Content-Type", "application/json");
    }
    for (name, value) in headers.into_iter().flatten() {
        let other = value.to_string();
        request = request.header(name, value.as_str().unwrap_or(&other));
    }
    if let Some(login) = login.filter(|_| !has("authorization")) {
        request = request.header("Authorization", login);
    }
    // No message has the request itself: its headers are secret.
    let wrong = |_| {
        Error::Failed(format!(
            "`url` {shown} or a header of it is not well formed"
        ))
    };
    let text = body.map(Value::to_string).unwrap_or_default();
    let request = request.body(text).map_err(wrong)?;
    // A redirect would take the headers to somebody else.
    let client = fetch::client(context, limit, 0);
    let fail = |error: ureq::Error| Error::Failed(format!("{method} {shown} failed: {error}"));
    let mut answer = client.run(request).map_err(fail)?;
    let status = answer.status();
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES);
    Ok((status, body.read_to_string().map_err(fail)?))
}

/// What the service said, without secrets that it repeats.
fn refused(
    desired: &Attributes,
    method: &str,
    url: &str,
    status: StatusCode,
    answer: &str,
) -> Error {
    let mut secrets = BTreeSet::new();
    let headers = desired.get("headers").and_then(Value::as_object);
    for value in headers.into_iter().flat_map(Map::values) {
        secrets.extend(value.as_str().into_iter().flat_map(of_header));
    }
    let login = fetch::with_login(url).1;
    secrets.extend(login.iter().flat_map(|login| of_header(login)));
    add_secrets(body(desired), &secret(desired), &mut secrets);
    // As JSON writes them, too: without the quotes around.
    let written = |secret: &String| {
        let text = json!(secret).to_string();
        text[1..text.len() - 1].to_owned()
    };
    let written: Vec<String> = secrets.iter().map(written).collect();
    let mut secrets: Vec<String> = secrets.into_iter().chain(written).collect();
    secrets.retain(|secret| secret.len() >= MIN_SECRET);
    // One may be a part of another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let end = answer.floor_char_boundary(SHOWN_BYTES);
    let mut shown = answer.to_owned();
    for secret in &secrets {
        shown = shown.replace(secret.as_str(), HIDDEN);
    }
    shown.truncate(shown.floor_char_boundary(end));
    let shown = match shown.trim() {
        "" => String::new(),
        shown => format!(": {shown}"),
    };
    let url = without_credentials(url);
    let message = format!("{method} {url} answers {status}{shown}");
    if status.is_redirection() {
        return Error::Failed(format!("{message}; name the address that it leads to"));
    }
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Error::Skip(message),
        _ => Error::Failed(message),
    }
}

/// What a service may repeat of a header: all of it, a token without the word before it, a password that it has decoded.
fn of_header(value: &str) -> Vec<String> {
    let mut all = vec![value.to_owned()];
    if let Some((scheme, secret)) = value.split_once(' ') {
        all.push(secret.trim().to_owned());
        let login = BASE64_STANDARD.decode(secret.trim()).unwrap_or_default();
        if let Ok(login) = String::from_utf8(login)
            && scheme.eq_ignore_ascii_case("basic")
            && let Some((_, password)) = login.split_once(':')
        {
            all.push(password.to_owned());
        }
    }
    all
}

/// The texts and numbers of all members that are secret, or whose names say so.
fn add_secrets(value: &Value, names: &[&str], secrets: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if names.contains(&name.as_str()) || is_secret(name) {
                    add_all(value, secrets);
                } else {
                    add_secrets(value, names, secrets);
                }
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| add_secrets(item, names, secrets)),
        _ => (),
    }
}

fn add_all(value: &Value, secrets: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            secrets.insert(text.clone());
        }
        Value::Number(number) => {
            secrets.insert(number.to_string());
        }
        Value::Array(items) => items.iter().for_each(|item| add_all(item, secrets)),
        Value::Object(members) => members.values().for_each(|item| add_all(item, secrets)),
        Value::Null | Value::Bool(_) => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given: an answer that repeats what a request has of secrets: tokens without the word before them, a password that it decoded,
    /// members that are secret or named so, in lists, as numbers, as JSON writes them. Expected: none of them is in the message.
    #[test]
    fn what_a_service_repeats_of_secrets_is_hidden() {
        let desired = json!({
            "url": "http://user:url-secret@host/x",
            "headers": {"Authorization": "Bearer header-secret", "X-Login": "Basic dXNlcjpiYXNpYy1zZWNyZXQ="},
            "body": {
                "pin": 123_456,
                "keys": ["list-secret", {"id": "deep-secret"}],
                "text": "quoted \"secret\"\n",
                "password": "named-secret",
                "name": "shown",
            },
            "secret_members": ["pin", "keys", "text"],
        });
        let answer = format!(
            "header-secret url-secret dXNlcjp1cmwtc2VjcmV0 basic-secret {}",
            desired["body"]
        );
        let desired = desired.as_object().unwrap();
        let url = text(desired, "url");
        let error = refused(desired, "PUT", url, StatusCode::BAD_REQUEST, &answer).to_string();
        assert!(
            !error.contains("secret") && !error.contains("123456") && !error.contains("dXNl"),
            "{error}"
        );
        assert!(error.contains("shown"), "{error}");
    }
}
