// SPDX-License-Identifier: Apache-2.0
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    lodestone_fuzz::decode::frames(input);
    lodestone_fuzz::decode::messages(input);
    lodestone_fuzz::start::files(input);
});
