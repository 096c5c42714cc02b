//! Signatures of requests: HMAC-SHA1 in base64.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

/// A secret key, prepared for many signatures.
pub struct SigningKey(Hmac<Sha1>);

impl SigningKey {
    pub fn new(secret: &[u8]) -> Self {
        SigningKey(Hmac::new_from_slice(secret).expect("a key of HMAC may have any length"))
    }

    /// Prepares a key whose signatures also cover `before`, which precedes the content.
    pub fn after(secret: &[u8], before: &[u8]) -> Self {
        let mut key = SigningKey::new(secret);
        key.0.update(before);
        key
    }

    /// Returns the signature of `content` and `body`, in base64.
    pub fn sign(&self, content: &[u8], body: &[u8]) -> [u8; 28] {
        let mut mac = self.0.clone();
        mac.update(content);
        mac.update(body);
        base64(&mac.finalize().into_bytes().into())
    }

    /// Returns true if `signature` is that of `content` and `body`; the time does not depend on where they differ.
    pub fn has_signed(&self, content: &[u8], body: &[u8], signature: &[u8]) -> bool {
        let expected = self.sign(content, body);
        let difference = expected
            .iter()
            .zip(signature)
            .fold(0, |found, (one, other)| found | (one ^ other));
        signature.len() == expected.len() && difference == 0
    }
}

fn base64(digest: &[u8; 20]) -> [u8; 28] {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = [b'='; 28];
    for (three, four) in digest.chunks(3).zip(text.chunks_exact_mut(4)) {
        let bits = three
            .iter()
            .fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for (place, digit) in four.iter_mut().take(three.len() + 1).enumerate() {
            *digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_hmac_sha1() {
        let signature = b"3nybhbi3iqa8ino29wqQcBydtNk="; // a well-known example
        let key = SigningKey::new(b"key");
        let (content, body) = (b"The quick brown fox ", b"jumps over the lazy dog");
        assert_eq!(&key.sign(content, body), signature);
        assert!(key.has_signed(content, body, signature));
        assert_eq!(
            &SigningKey::after(b"key", content).sign(b"", body),
            signature
        );
        assert!(!key.has_signed(content, b"jumps", signature));
        assert!(!key.has_signed(content, body, &signature[..27]));
        assert!(!key.has_signed(content, body, b""));
    }
}
