internal import Foundation

// A build with libFuzzer has the main program of libFuzzer, which calls these functions. The variable CANOPY_FUZZ names
// the decoder; with `list` the program prints all decoders.
#if CANOPY_LIBFUZZER
  /// The decoder under test.
  private let decoder = FuzzedDecoder.named(variable)

  private var variable: String { ProcessInfo.processInfo.environment["CANOPY_FUZZ"] ?? "" }

  @c(LLVMFuzzerInitialize)
  func initialize(
    _ count: UnsafeMutablePointer<CInt>?, _ arguments: UnsafeMutableRawPointer?
  ) -> CInt {
    if variable == "list" {
      print(FuzzedDecoder.list, terminator: "")
      exit(0)
    }
    precondition(decoder != nil, "CANOPY_FUZZ must name a decoder, or be list")
    return 0
  }

  @c(LLVMFuzzerTestOneInput)
  func testOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
      _ = try decoder?.check(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
      // libFuzzer keeps an input that ends the process.
      FileHandle.standardError.write(Data("\(error)\n".utf8))
      abort()
    }
    return 0
  }
#else
  /// Prints the decoders. `Scripts/fuzz-coverage` builds the program with libFuzzer.
  @main enum CanopyFuzz {
    static func main() { print(FuzzedDecoder.list, terminator: "") }
  }
#endif
