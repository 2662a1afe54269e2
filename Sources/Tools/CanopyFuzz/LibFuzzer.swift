internal import Dispatch
internal import Foundation
internal import Synchronization

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
    let input = Array(UnsafeBufferPointer(start: bytes, count: count))
    do {
      switch decoder?.check {
      case .immediate(let check): _ = try check(input)
      case .suspending(let check): try wait { _ = try await check(input) }
      case nil: break
      }
    } catch {
      // libFuzzer keeps an input that ends the process.
      FileHandle.standardError.write(Data("\(error)\n".utf8))
      abort()
    }
    return 0
  }

  /// Waits on the thread of libFuzzer until `body` has ended. No task uses this thread.
  private func wait(_ body: @escaping @Sendable () async throws -> Void) throws {
    let result = Mutex<Result<Void, any Error>>(.success(()))
    let ended = DispatchSemaphore(value: 0)
    Task {
      do { try await body() } catch { result.withLock { $0 = .failure(error) } }
      ended.signal()
    }
    ended.wait()
    try result.withLock { $0 }.get()
  }
#else
  /// Prints the decoders. `Scripts/fuzz-coverage` builds the program with libFuzzer.
  @main enum CanopyFuzz {
    static func main() { print(FuzzedDecoder.list, terminator: "") }
  }
#endif
