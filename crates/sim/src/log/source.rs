//! Where a log is read from: a file, gzip or not, or standard input. What is compressed is told by its first bytes,
//! not by its name. Other compressions are refused by name rather than read as garbage.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

/// How much is read at once, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// The first bytes of compressions that are not read here, with the program that does.
const OTHERS: [(&[u8], &str); 4] = [
    (&[0x28, 0xB5, 0x2F, 0xFD], "zstd"),
    (&[0xFD, b'7', b'z', b'X', b'Z'], "xz"),
    (b"BZh", "bzip2"),
    (&[0x04, 0x22, 0x4D, 0x18], "lz4"),
];

/// Opens a log; `-` is standard input.
///
/// # Errors
/// If it cannot be opened or read, is a folder, or is compressed in another way than gzip's.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    if path.as_os_str() == "-" {
        return decompressed(BufReader::with_capacity(BUFFER_BYTES, io::stdin()));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "is a folder: name the log files in it",
        ));
    }
    decompressed(BufReader::with_capacity(BUFFER_BYTES, file))
}

/// Undoes gzip if the stream begins as gzip does; several gzip files one after another are one stream.
///
/// # Errors
/// If the first bytes cannot be read, or are of another compression.
pub fn decompressed<R: BufRead + Send + 'static>(
    mut input: R,
) -> io::Result<Box<dyn BufRead + Send>> {
    // As many bytes as tell any of them; a pipe may give fewer at once.
    let mut head = Vec::with_capacity(5);
    input.by_ref().take(5).read_to_end(&mut head)?;
    if let Some((_, program)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "is compressed with {program}, which is not read: pipe `{program} -dc` into `-`"
            ),
        ));
    }
    let is_gzip = head.starts_with(&[0x1F, 0x8B]);
    let whole = io::Cursor::new(head).chain(input);
    Ok(if is_gzip {
        Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            MultiGzDecoder::new(whole),
        ))
    } else {
        Box::new(whole)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        // One byte at a time, as a slow pipe would give it.
        let slow = BufReader::with_capacity(1, io::Cursor::new(bytes));
        decompressed(slow)?.read_to_end(&mut all)?;
        Ok(all)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn plain_and_gzip_and_several_gzips_are_read() {
        for text in [&b""[..], b"a", b"some lines\nof text\n"] {
            assert_eq!(read(text.to_vec()).unwrap(), text);
            assert_eq!(read(gzip(text)).unwrap(), text);
        }
        let both = [gzip(b"one\n"), gzip(b"two\n")].concat();
        assert_eq!(read(both).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn a_gzip_that_breaks_off_is_an_error() {
        let mut broken = gzip(&[b'x'; 1000]);
        broken.truncate(broken.len() - 9);
        assert_eq!(
            read(broken).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }

    #[test]
    fn other_compressions_are_refused_by_name() {
        let error = read(vec![0x28, 0xB5, 0x2F, 0xFD, 0, 0]).unwrap_err();
        assert!(error.to_string().contains("zstd -dc"), "{error}");
    }

    #[test]
    fn a_folder_and_a_missing_file_are_errors() {
        assert!(open(Path::new("/")).is_err());
        assert!(open(Path::new("/no/such/file")).is_err());
    }
}
