// SPDX-License-Identifier: Apache-2.0
//! Enums whose values have a number in the protocol.

/// Declares an enum and the way back from a number to its value. An unknown number is returned as
/// the error.
macro_rules! numbered {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$value_meta:meta])* $value:ident = $number:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$value_meta])* $value = $number,)*
        }

        impl TryFrom<u8> for $name {
            type Error = u8;

            fn try_from(number: u8) -> Result<Self, u8> {
                match number {
                    $($number => Ok(Self::$value),)*
                    other => Err(other),
                }
            }
        }
    };
}
pub(crate) use numbered;
