// SPDX-License-Identifier: Apache-2.0
//! The macros that make messages and fields of declarations.

/// Declares the order of the fields of a type on the wire. A field whose name in an error differs
/// from its name in the type has it behind `as`.
macro_rules! fields {
    ($name:ty { $($field:ident: $type:ty $(as $wire_name:literal)?,)* }) => {
        impl $crate::codec::Field for $name {
            const MIN_BYTES: usize = 0 $(+ <$type as $crate::codec::Field>::MIN_BYTES)*;

            fn put(&self, out: &mut bytes::BytesMut) {
                $($crate::codec::Field::put(&self.$field, out);)*
            }

            fn get(
                input: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::FieldError> {
                Ok(Self {
                    $($field: input.field($crate::codec::fields!(@ $field $($wire_name)?))?,)*
                })
            }
        }
    };
    (@ $field:ident) => { stringify!($field) };
    (@ $field:ident $wire_name:literal) => { $wire_name };
}
pub(crate) use fields;

/// Declares a struct whose fields stand in wire order.
macro_rules! record {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type,)*
        }

        $crate::codec::fields! { $name { $($field: $type,)* } }
    };
}
pub(crate) use record;

/// Declares that a type of the model is one number on the wire.
macro_rules! number {
    ($name:ident($inner:ty)) => {
        impl $crate::codec::Field for $name {
            const MIN_BYTES: usize = <$inner as $crate::codec::Field>::MIN_BYTES;

            fn put(&self, out: &mut bytes::BytesMut) {
                $crate::codec::Field::put(&self.0, out);
            }

            fn get(
                input: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::FieldError> {
                <$inner as $crate::codec::Field>::get(input).map(Self)
            }
        }
    };
}
pub(crate) use number;

/// Declares that an enum of the model, whose values have numbers, is a byte on the wire. Every
/// other byte is an error.
macro_rules! byte {
    ($name:ident) => {
        impl $crate::codec::Field for $name {
            const MIN_BYTES: usize = 1;

            fn put(&self, out: &mut bytes::BytesMut) {
                bytes::BufMut::put_u8(out, *self as u8);
            }

            fn get(
                input: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::FieldError> {
                let byte = input.u8()?;
                Ok(Self::try_from(byte).map_err($crate::codec::Problem::UnknownValue)?)
            }
        }
    };
}
pub(crate) use byte;

/// Declares names for the values of a byte; every other value is an error.
macro_rules! named_byte {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$value_meta:meta])* $value:ident = $byte:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$value_meta])* $value = $byte,)*
        }

        impl $crate::codec::Field for $name {
            const MIN_BYTES: usize = 1;

            fn put(&self, out: &mut bytes::BytesMut) {
                bytes::BufMut::put_u8(out, *self as u8);
            }

            fn get(
                input: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::FieldError> {
                match input.u8()? {
                    $($byte => Ok(Self::$value),)*
                    other => Err($crate::codec::Problem::UnknownValue(other).into()),
                }
            }
        }
    };
}
pub(crate) use named_byte;

/// Declares a message: `message! { strict, 64; /// doc pub struct Hello { .. } }`.
macro_rules! message {
    ($mode:ident, $id:literal; $(#[$meta:meta])* pub struct $name:ident { $($fields:tt)* }) => {
        $crate::codec::record! { $(#[$meta])* pub struct $name { $($fields)* } }

        impl $crate::codec::Message for $name {
            const ID: u8 = $id;
            const NAME: &'static str = stringify!($name);
            const STRICT: bool = $crate::codec::message!(@ $mode);

            fn encode_fields(&self, out: &mut bytes::BytesMut) {
                $crate::codec::Field::put(self, out);
            }

            fn decode_fields(
                input: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::FieldError> {
                $crate::codec::Field::get(input)
            }
        }
    };
    (@ strict) => { true };
    (@ lenient) => { false };
}
pub(crate) use message;
