//! Operators on values. Errors are texts; the caller knows the place.

use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};

use super::text::Instances;
use super::value::{Heap, Value};
use crate::syntax::ast::Operator;
use crate::syntax::token::Cmp;

/// No integer may have more bits than this; `9 ** 9 ** 9` must not eat the memory.
const MAX_BITS: u64 = 1 << 20;

impl Heap {
    /// Both operands are known; `and` and `or` are not handled here.
    pub fn binary(
        &mut self,
        operator: Operator,
        a: Value,
        b: Value,
        instances: &dyn Instances,
    ) -> Result<Value, String> {
        match operator {
            Operator::Cmp(Cmp::Eq) => Ok(Value::Bool(self.equal(a, b))),
            Operator::Cmp(Cmp::Ne) => Ok(Value::Bool(!self.equal(a, b))),
            Operator::Cmp(cmp) => self.order(cmp, a, b),
            Operator::In => self.contains(a, b, instances),
            Operator::NotIn => match self.contains(a, b, instances)? {
                Value::Bool(found) => Ok(Value::Bool(!found)),
                unknown => Ok(unknown),
            },
            Operator::Add => self.add(a, b, instances),
            _ => self.arithmetic(operator, a, b, instances),
        }
    }

    fn order(&self, cmp: Cmp, a: Value, b: Value) -> Result<Value, String> {
        let is_number = |value| {
            matches!(
                value,
                Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Big(_)
            )
        };
        if !is_number(a) || !is_number(b) {
            return Err("Can only compare numbers.".to_owned());
        }
        let order = self.compare(a, b);
        Ok(Value::Bool(order.is_some_and(|order| match cmp {
            Cmp::Lt => order.is_lt(),
            Cmp::Gt => order.is_gt(),
            Cmp::Le => order.is_le(),
            Cmp::Ge => order.is_ge(),
            Cmp::Eq => order.is_eq(),
            Cmp::Ne => order.is_ne(),
        })))
    }

    fn contains(&mut self, a: Value, b: Value, instances: &dyn Instances) -> Result<Value, String> {
        match b {
            Value::List(id) => {
                let items = self.list(id);
                if items.iter().any(|item| self.equal(a, *item)) {
                    return Ok(Value::Bool(true));
                }
                if items.iter().any(|item| matches!(item, Value::Unknown(_))) {
                    return Ok(self.new_unknown());
                }
                Ok(Value::Bool(false))
            }
            Value::Dict(id) => Ok(Value::Bool(match a {
                Value::Str(key) => self.dict_get(id, self.str(key)).is_some(),
                _ => false,
            })),
            _ => Err(format!(
                "Operand two of 'in' can only be a list or dict ({})",
                self.to_text(b, instances)
            )),
        }
    }

    fn operand(&self, value: Value, instances: &dyn Instances) -> String {
        format!(
            "'{}' ({})",
            self.python_type(value),
            self.repr(value, instances)
        )
    }

    fn add(&mut self, a: Value, b: Value, instances: &dyn Instances) -> Result<Value, String> {
        match (a, b) {
            (Value::Str(a), Value::Str(b)) => {
                let text = [self.str(a), self.str(b)].concat();
                Ok(self.new_str(&text))
            }
            (Value::Str(_), b) => Err(format!(
                "Can only concatenate str (not {}) to str",
                self.operand(b, instances)
            )),
            _ => self.arithmetic(Operator::Add, a, b, instances),
        }
    }

    fn arithmetic(
        &mut self,
        operator: Operator,
        a: Value,
        b: Value,
        instances: &dyn Instances,
    ) -> Result<Value, String> {
        let is_number = |value| {
            matches!(
                value,
                Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Big(_)
            )
        };
        if !is_number(a) || !is_number(b) {
            let name = match operator {
                Operator::Add => "plus",
                Operator::Sub => "minus",
                Operator::Mul => "multiplication",
                Operator::Div => "division",
                Operator::Mod => "modulo",
                _ => "exponentiation",
            };
            return Err(format!(
                "Unsupported operand type(s) for {name}: {} and {}",
                self.operand(a, instances),
                self.operand(b, instances)
            ));
        }
        let small = |value| match value {
            Value::Bool(value) => Some(i64::from(value)),
            Value::Int(value) => Some(value),
            _ => None,
        };
        if let (Some(a), Some(b)) = (small(a), small(b)) {
            let quick = match operator {
                Operator::Add => a.checked_add(b),
                Operator::Sub => a.checked_sub(b),
                Operator::Mul => a.checked_mul(b),
                Operator::Mod if b > 0 => Some(a.rem_euclid(b)),
                _ => None,
            };
            if let Some(result) = quick {
                return Ok(Value::Int(result));
            }
        }
        if let (Some(x), Some(y)) = (self.to_big(a), self.to_big(b)) {
            return self.integers(operator, x, y);
        }
        let (x, y) = match (self.to_float(a), self.to_float(b)) {
            (Some(x), Some(y)) => (x, y),
            _ => return Err("int too large to convert to float".to_owned()),
        };
        let result = match operator {
            Operator::Add => x + y,
            Operator::Sub => x - y,
            Operator::Mul => x * y,
            Operator::Div if y == 0.0 => return Err("float division by zero".to_owned()),
            Operator::Div => x / y,
            Operator::Mod if y == 0.0 => return Err("float modulo by zero".to_owned()),
            Operator::Mod => {
                let rest = x % y;
                if rest == 0.0 {
                    rest.copysign(y)
                } else if (rest < 0.0) != (y < 0.0) {
                    rest + y
                } else {
                    rest
                }
            }
            _ if x == 0.0 && y < 0.0 => {
                return Err("0.0 cannot be raised to a negative power".to_owned());
            }
            _ if x < 0.0 && y.fract() != 0.0 => {
                return Err("a negative number has no fractional power".to_owned());
            }
            _ => x.powf(y),
        };
        if result.is_infinite() && x.is_finite() && y.is_finite() && operator == Operator::Pow {
            return Err("the result of ** is too large".to_owned());
        }
        Ok(Value::Float(result))
    }

    fn integers(&mut self, operator: Operator, x: BigInt, y: BigInt) -> Result<Value, String> {
        let result = match operator {
            Operator::Add => x + y,
            Operator::Sub => x - y,
            Operator::Mul => {
                if x.bits() + y.bits() > MAX_BITS {
                    return Err("the result of * is too large".to_owned());
                }
                x * y
            }
            Operator::Div => {
                if y.is_zero() {
                    return Err("division by zero".to_owned());
                }
                let quotient = match (x.to_i64(), y.to_i64()) {
                    (Some(x), Some(y))
                        if x.unsigned_abs() < 1 << 53 && y.unsigned_abs() < 1 << 53 =>
                    {
                        x as f64 / y as f64
                    }
                    _ => ratio(&x, &y),
                };
                if !quotient.is_finite() {
                    return Err("integer division result too large for a float".to_owned());
                }
                return Ok(Value::Float(quotient));
            }
            Operator::Mod => {
                if y.is_zero() {
                    return Err("integer modulo by zero".to_owned());
                }
                let rest = &x % &y;
                if !rest.is_zero() && rest.is_negative() != y.is_negative() {
                    rest + y
                } else {
                    rest
                }
            }
            _ => {
                if y.is_negative() {
                    if x.is_zero() {
                        return Err("0.0 cannot be raised to a negative power".to_owned());
                    }
                    let (x, y) = (
                        x.to_f64().unwrap_or(f64::NAN),
                        y.to_f64().unwrap_or(f64::NAN),
                    );
                    return Ok(Value::Float(x.powf(y)));
                }
                let exponent = y.to_u32();
                let too_large = |exponent: u32| {
                    x.bits() > 1 && x.bits().saturating_mul(u64::from(exponent)) > MAX_BITS
                };
                match exponent {
                    Some(exponent) if !too_large(exponent) => x.pow(exponent),
                    None if x.bits() <= 1 => {
                        if x.is_negative() && (&y % BigInt::from(2)).is_zero() {
                            -x
                        } else {
                            x
                        }
                    }
                    _ => return Err("the result of ** is too large".to_owned()),
                }
            }
        };
        Ok(self.new_int(result))
    }
}

/// A correctly scaled quotient of integers that do not fit floats.
fn ratio(x: &BigInt, y: &BigInt) -> f64 {
    let shift = 66 + y.bits() as i64 - x.bits() as i64;
    let scaled = if shift > 0 {
        (x << shift as u64) / y
    } else {
        x / (y << (-shift) as u64)
    };
    scaled.to_f64().unwrap_or(f64::NAN) * 2f64.powi((-shift).clamp(-2000, 2000) as i32)
}
