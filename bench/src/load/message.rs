//! What is sent: messages encoded once, into which a key's number is written for each request.
//!
//! Written by hand because a request is made for every few microseconds of the server's time.

/// A message with a place for a key number of eight digits.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Vec<u8>,
    /// Where the eight digits are; none if every message is alike.
    digits_at: Option<usize>,
    /// Request `n` asks for key `order(n)`.
    order: Order,
}

/// Which key each request asks for.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// 0, 1, 2, ... and from the start after so many.
    InTurn(u64),
    /// Spread over so many, the same each time.
    Scattered(u64),
    /// In turn, of so many from one on.
    Slice {
        /// The first.
        first: u64,
        /// How many.
        keys: u64,
    },
}

impl Order {
    fn key(self, number: u64) -> u64 {
        match self {
            Self::InTurn(keys) => number % keys,
            // Fibonacci hashing: far from the key before, and cheap.
            Self::Scattered(keys) => (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % keys,
            Self::Slice { first, keys } => first + number % keys,
        }
    }
}

const DIGITS: &str = "00000000";

impl Message {
    /// Any bytes; eight zeros after the letter k, if there are any, become the key's number.
    pub fn new(bytes: Vec<u8>, order: Order) -> Self {
        let mark = format!("k{DIGITS}");
        let marked_at = bytes
            .windows(mark.len())
            .position(|at| at == mark.as_bytes());
        Self {
            bytes,
            digits_at: marked_at.map(|at| at + 1),
            order,
        }
    }

    /// A gRPC message: `envoy.service.ratelimit.v3.RateLimitRequest` with one descriptor of one entry.
    pub fn rls(domain: &str, entry: &str, order: Order) -> Self {
        let mut pair = Vec::new();
        field(&mut pair, 1, entry.as_bytes());
        field(&mut pair, 2, format!("k{DIGITS}").as_bytes());
        let mut descriptor = Vec::new();
        field(&mut descriptor, 1, &pair);
        let mut request = Vec::new();
        field(&mut request, 1, domain.as_bytes());
        field(&mut request, 2, &descriptor);
        Self::new(with_grpc_prefix(&request), order)
    }

    /// A gRPC message: throttlecrab's `ThrottleRequest`, with a limit too high to be reached or of `per_second`.
    pub fn throttlecrab(per_second: Option<u32>, order: Order) -> Self {
        let (burst, count, period) = match per_second {
            Some(count) => (count, count, 1),
            None => (1_000_000_000, 1_000_000_000, 3600),
        };
        let mut request = Vec::new();
        field(&mut request, 1, format!("k{DIGITS}").as_bytes());
        for (number, value) in [(2, burst), (3, count), (4, period), (5, 1)] {
            request.push(number << 3);
            varint(&mut request, value.into());
        }
        Self::new(with_grpc_prefix(&request), order)
    }

    /// Its length, the same for every key.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the message of request `number`.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        if let Some(at) = self.digits_at {
            let mut rest = self.order.key(number);
            for digit in out[start + at..start + at + DIGITS.len()].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
    }
}

fn with_grpc_prefix(message: &[u8]) -> Vec<u8> {
    // Not compressed, and the length.
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(message);
    framed
}

/// A length-delimited protobuf field.
fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;
    use wire::envoy::service::ratelimit::v3::RateLimitRequest;

    #[test]
    fn prost_reads_what_was_written_by_hand() {
        let message = super::Message::rls("bench", "key", Order::InTurn(1000));
        let mut bytes = Vec::new();
        message.write(1042, &mut bytes);
        assert_eq!(bytes.len(), message.len());
        let request = RateLimitRequest::decode(&bytes[5..]).unwrap();
        assert_eq!(request.domain, "bench");
        assert_eq!(request.descriptors.len(), 1);
        assert_eq!(request.descriptors[0].entries[0].key, "key");
        assert_eq!(request.descriptors[0].entries[0].value, b"k00000042");
    }

    #[test]
    fn orders_stay_within_their_keys() {
        for number in 0..10_000 {
            assert!(Order::InTurn(7).key(number) < 7);
            assert!(Order::Scattered(100_000).key(number) < 100_000);
            let slice = Order::Slice { first: 20, keys: 7 };
            assert!((20..27).contains(&slice.key(number)));
        }
    }
}
