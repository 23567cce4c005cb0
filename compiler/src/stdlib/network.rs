//! Addresses and networks. Source: docs/reference/std.md § 5.4.

use num_bigint::{BigInt, Sign};
use num_traits::ToPrimitive;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::hir::plugin::Bound;
use crate::stdlib::text_types::{Interface, parse_address, parse_interface, parse_network};
use crate::stdlib::{
    Model, NativeDef, PluginError, Value, external, int_arg, native, str_arg, text_value,
};

pub(super) fn natives() -> Vec<NativeDef> {
    vec![
        native!(
            "prefixlen",
            "addr: std::ipv_any_interface -> int",
            |model, args| { Ok(Value::Int(i64::from(interface(model, args)?.prefix))) }
        ),
        native!(
            "netmask",
            "addr: std::ipv_any_interface -> std::ipv_any_address",
            netmask
        ),
        native!(
            "network_address",
            "addr: std::ipv_any_interface -> std::ipv_any_address",
            network_address
        ),
        native!(
            "ip_address_from_interface",
            "ip_interface: std::ipv_any_interface -> std::ipv_any_address",
            |model, args| {
                let interface = interface(model, args)?;
                text_value(model, &interface.address.to_string())
            }
        ),
        native!(
            "prefixlength_to_netmask",
            "prefixlen: int -> std::ipv4_address",
            prefixlength_to_netmask
        ),
        native!(
            "ipindex",
            "addr: std::ipv_any_network, position: int, keep_prefix: bool = false -> string",
            ipindex
        ),
        native!(
            "add_to_ip",
            "addr: std::ipv_any_address, n: int -> std::ipv_any_address",
            add_to_ip
        ),
    ]
}

fn netmask(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let interface = interface(model, args)?;
    let mask = address(
        mask(interface.prefix, interface.bits()),
        interface.address.is_ipv4(),
    );
    text_value(model, &mask.to_string())
}

fn network_address(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let interface = interface(model, args)?;
    let network = number(interface.address) & mask(interface.prefix, interface.bits());
    text_value(
        model,
        &address(network, interface.address.is_ipv4()).to_string(),
    )
}

fn prefixlength_to_netmask(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let prefix = int_arg(args, 0)?;
    if !(0..=32).contains(&prefix) {
        return external(
            "NetmaskValueError",
            format!("'{prefix}' is not a valid netmask"),
        );
    }
    text_value(model, &address(mask(prefix as u8, 32), true).to_string())
}

fn ipindex(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let text = str_arg(model.heap_ref(), args, 0).to_owned();
    let Some(network) = parse_network(&text) else {
        return external(
            "ValueError",
            format!("'{text}' does not appear to be an IPv4 or IPv6 network"),
        );
    };
    let position = i128::from(int_arg(args, 1)?);
    let host_bits = u32::from(network.bits() - network.prefix);
    let size: Option<u128> = 1u128.checked_shl(host_bits);
    let offset = if position < 0 {
        let back = position.unsigned_abs();
        match size {
            Some(size) => size.checked_sub(back),
            None => Some(u128::MAX - back + 1),
        }
    } else {
        let ahead = position.unsigned_abs();
        size.is_none_or(|size| ahead < size).then_some(ahead)
    };
    let Some(offset) = offset else {
        return external("IndexError", "address out of range");
    };
    let found = address(number(network.address) + offset, network.address.is_ipv4());
    let keep = matches!(args.arg(2), Value::Bool(true));
    let text = if keep {
        format!("{found}/{}", network.prefix)
    } else {
        found.to_string()
    };
    text_value(model, &text)
}

fn add_to_ip(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let text = str_arg(model.heap_ref(), args, 0).to_owned();
    let Some(start) = parse_address(&text) else {
        return external(
            "ValueError",
            format!("'{text}' does not appear to be an IPv4 or IPv6 address"),
        );
    };
    let step = model.heap_ref().to_big(args.arg(1)).unwrap_or_default();
    let sum = BigInt::from(number(start)) + step;
    let fits = |sum: &u128| !start.is_ipv4() || *sum <= u128::from(u32::MAX);
    match sum.to_u128().filter(fits) {
        Some(sum) => text_value(model, &address(sum, start.is_ipv4()).to_string()),
        None => {
            let (bits, version) = if start.is_ipv4() { (32, 4) } else { (128, 6) };
            let side = match sum.sign() {
                Sign::Minus => "< 0".to_owned(),
                _ => format!(">= 2**{bits}"),
            };
            external(
                "AddressValueError",
                format!("{sum} ({side}) is not permitted as an IPv{version} address"),
            )
        }
    }
}

fn interface(model: &mut dyn Model, args: &Bound) -> Result<Interface, PluginError> {
    let text = str_arg(model.heap_ref(), args, 0);
    match parse_interface(text) {
        Some(interface) => Ok(interface),
        None => external(
            "ValueError",
            format!("'{text}' does not appear to be an IPv4 or IPv6 interface"),
        ),
    }
}

pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn address(number: u128, v4: bool) -> IpAddr {
    if v4 {
        IpAddr::V4(Ipv4Addr::from(number as u32))
    } else {
        IpAddr::V6(Ipv6Addr::from(number))
    }
}

pub(super) fn mask(prefix: u8, bits: u8) -> u128 {
    let all = if bits == 32 {
        u128::from(u32::MAX)
    } else {
        u128::MAX
    };
    let host_bits = u32::from(bits - prefix.min(bits));
    all & u128::MAX.checked_shl(host_bits).unwrap_or(0)
}
