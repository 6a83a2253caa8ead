// SPDX-License-Identifier: Apache-2.0
//! The primitives: what a field is, and the macros that make a message of fields.
//!
//! A message is declared once, as a struct whose fields stand in wire order; the declaration is the
//! byte format. `record!` makes a struct that can be a field of others, `message!` one with a type
//! id. `fields!`, `number!` and `byte!` say how a type of the model stands on the wire.

mod declare;

use bytes::{BufMut, Bytes, BytesMut};
use lodestone_model::BadAppId;

pub(crate) use declare::{byte, fields, message, named_byte, number, record};

/// Most bytes of memory that decoding takes per byte of payload. The worst case is an array of
/// empty strings: four bytes on the wire, a 24-byte `String` in memory, and growth that doubles.
pub const MAX_AMPLIFICATION: usize = 12;

/// Elements for which an array reserves memory before it has decoded the first one.
const RESERVED_ELEMENTS: usize = 1024;

/// The problem of a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The payload ends inside the field.
    #[error("needs {needed} bytes, {remaining} remain")]
    Truncated {
        /// Bytes that the field takes.
        needed: usize,
        /// Bytes that are left.
        remaining: usize,
    },
    /// A length, count or index is below zero.
    #[error("{0} is negative")]
    Negative(i64),
    /// An array claims more elements than the bytes that remain can hold.
    #[error("{count} elements cannot fit in the {remaining} bytes that remain")]
    TooMany {
        /// Elements claimed.
        count: usize,
        /// Bytes that are left.
        remaining: usize,
    },
    /// A string is not UTF-8.
    #[error("is not UTF-8")]
    NotUtf8,
    /// A boolean is neither 0 nor 1.
    #[error("{0} is neither 0 nor 1")]
    NotBool(u8),
    /// An application id of a forbidden form.
    #[error("{0}")]
    BadAppId(BadAppId),
    /// A number that names nothing: a status code, a state, a cause.
    #[error("{0} is not a known value")]
    UnknownValue(u8),
    /// Arrays that must be equally long are not.
    #[error("has {actual} elements where {expected} were expected")]
    UnequalArrays {
        /// Elements that the other array has.
        expected: usize,
        /// Elements that this one has.
        actual: usize,
    },
    /// Not a Roaring bitmap in the portable form.
    #[error("is not a portable Roaring bitmap")]
    NotABitmap,
    /// Another message than the one asked for.
    #[error("is {0}, which is another message")]
    OtherType(u8),
    /// Bytes follow the last field.
    #[error("{0} bytes follow the last field")]
    TrailingBytes(usize),
}

/// A payload that is not the message that it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}: {field} {problem}")]
pub struct DecodeError {
    /// Name of the message.
    pub message: &'static str,
    /// Name of the field.
    pub field: &'static str,
    /// The problem.
    pub problem: Problem,
}

/// A problem on its way up, with the innermost field name that is known.
#[derive(Debug)]
pub struct FieldError {
    field: Option<&'static str>,
    problem: Problem,
}

impl FieldError {
    /// Adds the name of the field, unless an inner one was named already.
    pub(crate) fn at(mut self, field: &'static str) -> Self {
        self.field.get_or_insert(field);
        self
    }

    pub(crate) fn into_parts(self) -> (&'static str, Problem) {
        (self.field.unwrap_or("payload"), self.problem)
    }
}

impl From<Problem> for FieldError {
    fn from(problem: Problem) -> Self {
        Self {
            field: None,
            problem,
        }
    }
}

/// A message: one byte of type id, then fields.
pub trait Message: Sized {
    /// The type id.
    const ID: u8;
    /// The name in `docs/protocol.md`.
    const NAME: &'static str;
    /// Whether bytes after the last field are an error. Spark's decoders ignore them.
    const STRICT: bool;

    /// Appends the fields.
    fn encode_fields(&self, out: &mut BytesMut);

    /// Takes the fields from the input.
    fn decode_fields(input: &mut Reader<'_>) -> Result<Self, FieldError>;

    /// The message's bytes, with the type id.
    fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        out.put_u8(Self::ID);
        self.encode_fields(&mut out);
        out.freeze()
    }

    /// Decodes a payload that starts with the type id.
    fn from_bytes(payload: &[u8]) -> Result<Self, DecodeError> {
        let named = |error: FieldError| {
            let (field, problem) = error.into_parts();
            DecodeError {
                message: Self::NAME,
                field,
                problem,
            }
        };
        let mut input = Reader::new(payload);
        let id = input
            .u8()
            .map_err(|problem| named(FieldError::from(problem).at("type")))?;
        if id != Self::ID {
            return Err(named(FieldError::from(Problem::OtherType(id)).at("type")));
        }
        let message = Self::decode_fields(&mut input).map_err(named)?;
        match input.remaining() {
            rest if rest > 0 && Self::STRICT => Err(named(Problem::TrailingBytes(rest).into())),
            _ => Ok(message),
        }
    }
}

/// Something that can be a field of a message.
pub(crate) trait Field: Sized {
    /// Bytes that the smallest value takes; array counts are checked against it.
    const MIN_BYTES: usize;

    fn put(&self, out: &mut BytesMut);
    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError>;
}

/// A position in a payload. Every step checks what remains first.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> usize {
        self.0.len()
    }

    /// The bytes that are left, for decoders that advance on their own.
    pub(crate) fn rest(&mut self) -> &mut &'a [u8] {
        &mut self.0
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        let Some((taken, rest)) = self.0.split_at_checked(length) else {
            return Err(Problem::Truncated {
                needed: length,
                remaining: self.0.len(),
            });
        };
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let Some((taken, rest)) = self.0.split_first_chunk() else {
            return Err(Problem::Truncated {
                needed: N,
                remaining: self.0.len(),
            });
        };
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Problem> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Problem> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Problem> {
        self.array().map(i64::from_be_bytes)
    }

    /// An `i32` that must not be negative: a length, a count, an index.
    pub(crate) fn size(&mut self) -> Result<usize, Problem> {
        let value = self.i32()?;
        usize::try_from(value).map_err(|_| Problem::Negative(value.into()))
    }

    pub(crate) fn str(&mut self) -> Result<&'a str, Problem> {
        let length = self.size()?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Problem::NotUtf8)
    }

    pub(crate) fn field<T: Field>(&mut self, name: &'static str) -> Result<T, FieldError> {
        T::get(self).map_err(|error| error.at(name))
    }
}

pub(crate) fn put_size(size: usize, out: &mut BytesMut) {
    debug_assert!(
        i32::try_from(size).is_ok(),
        "{size} does not fit a length field"
    );
    out.put_u32(size as u32);
}

pub(crate) fn put_str(text: &str, out: &mut BytesMut) {
    put_size(text.len(), out);
    out.put_slice(text.as_bytes());
}

impl Field for u8 {
    const MIN_BYTES: usize = 1;

    fn put(&self, out: &mut BytesMut) {
        out.put_u8(*self);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(input.u8()?)
    }
}

impl Field for i32 {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut BytesMut) {
        out.put_i32(*self);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(input.i32()?)
    }
}

/// An `i32` on the wire that must not be negative.
impl Field for u32 {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut BytesMut) {
        debug_assert!(i32::try_from(*self).is_ok(), "{self} does not fit an i32");
        out.put_u32(*self);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        let value = input.i32()?;
        Ok(u32::try_from(value).map_err(|_| Problem::Negative(value.into()))?)
    }
}

impl Field for i64 {
    const MIN_BYTES: usize = 8;

    fn put(&self, out: &mut BytesMut) {
        out.put_i64(*self);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(input.i64()?)
    }
}

/// An `i64` on the wire that must not be negative. A value above 63 bits is written as the largest
/// `i64`.
impl Field for u64 {
    const MIN_BYTES: usize = 8;

    fn put(&self, out: &mut BytesMut) {
        out.put_i64(i64::try_from(*self).unwrap_or(i64::MAX));
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        let value = input.i64()?;
        Ok(u64::try_from(value).map_err(|_| Problem::Negative(value))?)
    }
}

/// All bits of a number, which is negative on the wire if the highest one is set.
pub(crate) struct Bits(pub(crate) u64);

impl Field for Bits {
    const MIN_BYTES: usize = 8;

    fn put(&self, out: &mut BytesMut) {
        out.put_u64(self.0);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(Self(input.i64()?.cast_unsigned()))
    }
}

impl Field for bool {
    const MIN_BYTES: usize = 1;

    fn put(&self, out: &mut BytesMut) {
        out.put_u8(u8::from(*self));
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        match input.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Problem::NotBool(other).into()),
        }
    }
}

impl Field for String {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut BytesMut) {
        put_str(self, out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        Ok(input.str()?.to_owned())
    }
}

impl<T: Field> Field for Vec<T> {
    const MIN_BYTES: usize = 4;

    fn put(&self, out: &mut BytesMut) {
        put_size(self.len(), out);
        for element in self {
            element.put(out);
        }
    }

    fn get(input: &mut Reader<'_>) -> Result<Self, FieldError> {
        let count = input.size()?;
        if count > input.remaining() / T::MIN_BYTES {
            return Err(Problem::TooMany {
                count,
                remaining: input.remaining(),
            }
            .into());
        }
        let mut elements = Vec::with_capacity(count.min(RESERVED_ELEMENTS));
        for _ in 0..count {
            elements.push(T::get(input)?);
        }
        Ok(elements)
    }
}
