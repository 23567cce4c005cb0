//! Tokens of an environment: made, listed, revoked. Source: docs/reference/rest.md § 1.13.

use serde_json::{Value, json};

use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::token::{Claims, ClientTypes};
use crate::api::routes::routes;
use crate::api::{Answer, wire};
use crate::app::App;
use crate::domain::Timestamp;
use crate::store::Token;

routes! {
    Get "/api/v2/environment_auth" Environment "the tokens of an environment that can be revoked" => Query list();
    Post "/api/v2/environment_auth" Environment "makes a token of an environment" => Body create();
    Delete "/api/v2/environment_auth/<jti>" Environment "revokes a token" => Query revoke(jti);
    Post "/api/v1/environment_auth" Environment "makes a token of an environment" => Body create_v1();
}

/// The longest time for which a token may be made: a century is as good as ever.
const MAX_SECONDS: i64 = 100 * 365 * 86_400;

async fn create(app: App, args: Args) -> Result<Answer, ApiError> {
    Ok(Answer::Data(made(&app, &args).await?.into()))
}

async fn create_v1(app: App, args: Args) -> Result<Answer, ApiError> {
    Ok(Answer::Body(json!({"token": made(&app, &args).await?})))
}

async fn made(app: &App, args: &Args) -> Result<String, ApiError> {
    let environment = scope(app, args).await?;
    let Some(secret) = &app.api_token else {
        return Err(ApiError::bad_request(
            "the server has no tokens: configure `api_token` first",
        ));
    };
    let names = args.list("client_types")?;
    let names = names.ok_or_else(|| ApiError::bad_request("Field 'client_types' is required."))?;
    let types = ClientTypes::parse(names.iter().map(String::as_str)).map_err(|name| {
        ApiError::bad_request(format!(
            "`{name}` is no client type: there are api, compiler and agent"
        ))
    })?;
    let mut claims = Claims::lasting(environment.id, names.join(","));
    let is_lasting = args.flag("idempotent", false)?;
    let seconds: Option<i64> = match args.value("expire") {
        None | Some(Value::Null) => None,
        Some(_) => args.parsed("expire")?,
    };
    match seconds {
        Some(_) if is_lasting => {
            return Err(ApiError::bad_request(
                "an idempotent token cannot expire, since it has no times",
            ));
        }
        Some(seconds) if !(1..=MAX_SECONDS).contains(&seconds) => {
            return Err(ApiError::bad_request(format!(
                "Field 'expire' has to be a number of seconds from 1 to {MAX_SECONDS}"
            )));
        }
        _ => {}
    }
    let now = Timestamp::now();
    let expires = seconds.map(|seconds| Timestamp(now.0 + seconds * 1_000_000));
    args.principal.may_make_token(types, expires)?;
    if is_lasting {
        claims.jti = args.principal.revoked_by();
    } else {
        let jti = uuid::Uuid::new_v4();
        claims.jti = Some(jti);
        claims.iat = Some(now.0 / 1_000_000);
        claims.exp = expires.map(|moment| moment.0 / 1_000_000);
        let token = Token {
            jti,
            environment: environment.id,
            client_types: claims.client_types.clone(),
            issued: now,
            expires,
            revoked: None,
            last_used: None,
        };
        app.store.token_register(&token).await?;
    }
    claims
        .sign(secret)
        .ok_or_else(|| ApiError::internal(&std::io::Error::other("a token cannot be signed")))
}

async fn list(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let tokens = app.store.token_list(environment.id).await?;
    let moment = |moment: Option<Timestamp>| moment.map(wire::timestamp);
    let shape = |token: &Token| {
        let types = token.client_types.split(',');
        json!({
            "jti": token.jti,
            "created_by": null,
            "client_types": types.filter(|name| !name.is_empty()).collect::<Vec<_>>(),
            "environment": token.environment,
            "issued_at": wire::timestamp(token.issued),
            "expires_at": moment(token.expires),
            "revoked_at": moment(token.revoked),
            "last_used": moment(token.last_used),
        })
    };
    Ok(Answer::Data(tokens.iter().map(shape).collect()))
}

async fn revoke(jti: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let jti: uuid::Uuid = jti
        .0
        .parse()
        .map_err(|_| ApiError::bad_request(format!("`{}` is no id of a token", jti.0)))?;
    match app.store.token_revoke(environment.id, jti).await? {
        true => Ok(Answer::Empty),
        false => Err(ApiError::not_found(format!(
            "token {jti} in environment {}",
            environment.id
        ))),
    }
}
