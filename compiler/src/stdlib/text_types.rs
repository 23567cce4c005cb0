//! Texts that are addresses, dates, URLs and the like. Source: docs/reference/std.md § 1.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::stdlib::network::{mask, number};

#[derive(Clone, Copy)]
pub(super) struct Interface {
    pub address: IpAddr,
    pub prefix: u8,
}

impl Interface {
    pub fn bits(&self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }
}

pub(super) fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    text.parse().ok()
}

/// Reads an IPv6 address. An optional `%zone` at its end does not belong to the address.
pub(super) fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    let (address, zone) = text
        .split_once('%')
        .map_or((text, None), |(address, zone)| (address, Some(zone)));
    if zone.is_some_and(|zone| zone.is_empty() || zone.contains('%')) {
        return None;
    }
    address.parse().ok()
}

pub(super) fn parse_address(text: &str) -> Option<IpAddr> {
    parse_v4(text)
        .map(IpAddr::V4)
        .or_else(|| parse_v6(text).map(IpAddr::V6))
}

fn prefix_number(text: &str, most: u8) -> Option<u8> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse::<u8>().ok().filter(|prefix| *prefix <= most)
}

fn v4_prefix(text: &str) -> Option<u8> {
    if let Some(prefix) = prefix_number(text, 32) {
        return Some(prefix);
    }
    let value = u32::from(parse_v4(text)?);
    // A netmask has its ones in front, a host mask behind.
    if value.leading_ones() + value.trailing_zeros() == 32 || value == 0 && text != "0.0.0.0" {
        return Some(value.leading_ones() as u8);
    }
    let inverted = !value;
    (inverted.leading_ones() + inverted.trailing_zeros() == 32)
        .then(|| inverted.leading_ones() as u8)
}

pub(super) fn parse_v4_interface(text: &str) -> Option<Interface> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, mask)) => (address, v4_prefix(mask)?),
        None => (text, 32),
    };
    Some(Interface {
        address: IpAddr::V4(parse_v4(address)?),
        prefix,
    })
}

pub(super) fn parse_v6_interface(text: &str) -> Option<Interface> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, prefix_number(prefix, 128)?),
        None => (text, 128),
    };
    Some(Interface {
        address: IpAddr::V6(parse_v6(address)?),
        prefix,
    })
}

pub(super) fn parse_interface(text: &str) -> Option<Interface> {
    parse_v4_interface(text).or_else(|| parse_v6_interface(text))
}

pub(super) fn is_network(interface: &Interface) -> bool {
    number(interface.address)
        & !mask(interface.prefix, interface.bits())
        & mask(interface.bits(), interface.bits())
        == 0
}

pub(super) fn parse_network(text: &str) -> Option<Interface> {
    parse_interface(text).filter(is_network)
}

fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        _ => 31,
    }
}

fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn plain_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let (Some(year), Some(month), Some(day), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2))
    else {
        return false;
    };
    year >= 1 && (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day)
}

/// Hours, minutes and seconds, and whether the fraction was zero; the zone is checked.
/// Digits of a second beyond the sixth are cut off.
fn time_parts(text: &str) -> Option<(u32, u32, u32, bool)> {
    let zone_at = text.find(['Z', 'z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(zone_at);
    if !zone.is_empty() && !is_zone(zone) {
        return None;
    }
    let mut parts = clock.splitn(3, ':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let mut second = 0;
    let mut whole = true;
    if let Some(rest) = parts.next() {
        let (seconds, fraction) = match rest.split_once(['.', ',']) {
            Some((seconds, fraction)) => (seconds, Some(fraction)),
            None => (rest, None),
        };
        second = digits(seconds, 2)?;
        if let Some(fraction) = fraction {
            let valid = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
            if !valid {
                return None;
            }
            whole = fraction.bytes().all(|b| b == b'0');
        }
    }
    (hour < 24 && minute < 60 && second < 60).then_some((hour, minute, second, whole))
}

fn is_zone(zone: &str) -> bool {
    if matches!(zone, "Z" | "z") {
        return true;
    }
    let offset = &zone[1..];
    let (hours, minutes) = match offset.split_once(':') {
        Some(parts) => parts,
        None if offset.len() == 4 && offset.is_ascii() => offset.split_at(2),
        None => return false,
    };
    digits(hours, 2).is_some_and(|h| h < 24) && digits(minutes, 2).is_some_and(|m| m < 60)
}

fn timestamp(text: &str) -> Option<f64> {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let valid = !body.is_empty()
        && body.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && body.matches('.').count() <= 1;
    seconds(valid.then(|| text.parse().ok())??)
}

fn seconds(value: f64) -> Option<f64> {
    // Large numbers are milliseconds.
    let seconds = if value.abs() > 2e10 {
        value / 1000.0
    } else {
        value
    };
    (seconds.abs() < 2.5e11).then_some(seconds)
}

/// A date is a number of seconds that ends at midnight.
pub(super) fn is_date_number(value: f64) -> bool {
    seconds(value).is_some_and(|seconds| seconds % 86_400.0 == 0.0)
}

/// The seconds since midnight.
pub(super) fn is_time_number(value: f64) -> bool {
    (0.0..86_400.0).contains(&value)
}

pub(super) fn is_datetime_number(value: f64) -> bool {
    seconds(value).is_some()
}

/// Whether a date with a time says its zone, as a number of seconds always does.
pub(super) fn has_zone(text: &str) -> bool {
    let of_time = split_datetime(text).map(|(_, time)| time);
    timestamp(text).is_some() || of_time.is_some_and(|time| time.contains(['Z', 'z', '+', '-']))
}

pub(super) fn is_date(text: &str) -> bool {
    if plain_date(text) {
        return true;
    }
    if let Some(seconds) = timestamp(text) {
        return seconds % 86_400.0 == 0.0;
    }
    let Some((date, time)) = split_datetime(text) else {
        return false;
    };
    plain_date(date)
        && time_parts(time).is_some_and(|parts| parts == (0, 0, 0, true))
        && !time.contains(['Z', 'z', '+', '-'])
}

fn split_datetime(text: &str) -> Option<(&str, &str)> {
    let date = text.get(..10)?;
    let time = text.get(11..)?;
    text[10..]
        .starts_with(['T', 't', ' ', '_'])
        .then_some((date, time))
}

pub(super) fn is_time(text: &str) -> bool {
    time_parts(text).is_some()
}

pub(super) fn is_datetime(text: &str) -> bool {
    if plain_date(text) || timestamp(text).is_some() {
        return true;
    }
    split_datetime(text).is_some_and(|(date, time)| plain_date(date) && time_parts(time).is_some())
}

pub(super) fn is_uuid(text: &str) -> bool {
    let text = text.strip_prefix("urn:uuid:").unwrap_or(text);
    let text = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .unwrap_or(text);
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    if text.len() == 32 {
        return hex(text);
    }
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|part| hex(part))
}

pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim();
    let text = match text
        .strip_suffix('>')
        .and_then(|rest| rest.rsplit_once('<'))
    {
        Some((_, address)) => address.trim(),
        None => text,
    };
    is_address(text)
}

fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let local_ok = !local.is_empty()
        && local.len() <= 64
        && local.split('.').all(|part| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_alphanumeric() || "!#$%&'*+/=?^_`{|}~-".contains(c))
        });
    let labels: Vec<&str> = domain.split('.').collect();
    let labels_ok = labels.len() >= 2
        && domain.len() <= 253
        && labels.iter().all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_alphanumeric() || c == '-')
        });
    let top = labels
        .last()
        .map(|label| label.to_ascii_lowercase())
        .unwrap_or_default();
    let special = ["test", "local", "localhost", "invalid", "arpa", "onion"]
        .contains(&top.as_str())
        || domain.to_ascii_lowercase().ends_with(".example");
    local_ok && labels_ok && !special && !top.bytes().all(|b| b.is_ascii_digit())
}

/// Scheme and host of a URL.
fn url_parts(text: &str) -> Option<(String, &str)> {
    let text = text.trim();
    let (scheme, rest) = text.split_once(':')?;
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    valid.then(|| (scheme.to_ascii_lowercase(), rest))
}

fn has_host(rest: &str) -> bool {
    let rest = rest.trim_start_matches(['/', '\\']);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or("");
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    if let Some(v6) = host.strip_prefix('[') {
        let Some((address, port)) = v6.split_once(']') else {
            return false;
        };
        return parse_v6(address).is_some() && (port.is_empty() || is_port(port));
    }
    let (host, port) = host
        .split_once(':')
        .map_or((host, None), |(host, port)| (host, Some(port)));
    let valid = !host.is_empty()
        && !host.contains(|c: char| c.is_whitespace() || "<>^|%[]{}\"`".contains(c));
    valid && port.is_none_or(|port| port.is_empty() || port.parse::<u16>().is_ok())
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':')
        .is_some_and(|port| port.is_empty() || port.parse::<u16>().is_ok())
}

pub(super) fn is_url(text: &str) -> bool {
    match url_parts(text) {
        Some((scheme, rest))
            if matches!(scheme.as_str(), "http" | "https" | "ftp" | "ws" | "wss") =>
        {
            has_host(rest)
        }
        Some((_, rest)) => match rest.strip_prefix("//") {
            Some(authority) => authority.starts_with('/') || authority.is_empty() || has_host(rest),
            None => true,
        },
        None => false,
    }
}

/// A URL of one of some schemes, perhaps with several hosts.
pub(super) fn is_url_of(text: &str, schemes: &[&str], needs_host: bool, several: bool) -> bool {
    let Some((scheme, rest)) = url_parts(text) else {
        return false;
    };
    let authority = rest.trim_start_matches('/');
    let end = authority.find(['/', '?', '#']).unwrap_or(authority.len());
    let hosts = authority[..end]
        .rsplit_once('@')
        .map_or(&authority[..end], |(_, hosts)| hosts);
    if several && hosts.contains(',') {
        return schemes.contains(&scheme.as_str()) && hosts.split(',').all(has_host);
    }
    schemes.contains(&scheme.as_str()) && is_url(text) && (!needs_host || has_host(rest))
}

pub(super) fn is_http_url(text: &str) -> bool {
    url_parts(text)
        .is_some_and(|(scheme, rest)| matches!(scheme.as_str(), "http" | "https") && has_host(rest))
}
