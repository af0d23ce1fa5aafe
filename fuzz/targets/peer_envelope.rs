//! The lease protocol's envelopes: any bytes are read or refused with an error that can be shown, and what was read is
//! written and read the same.
#![no_main]

use leasehold_fuzz::assert_printable;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match wire::peer::decode(bytes) {
        Ok(envelope) => {
            let written = wire::peer::encode(&envelope).expect("what was read can be written");
            let again = wire::peer::decode(&written).expect("what was written can be read");
            assert_eq!(again, envelope);
        }
        Err(error) => assert_printable(&error.to_string()),
    }
});
