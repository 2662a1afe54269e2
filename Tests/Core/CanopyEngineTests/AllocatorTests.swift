import CanopySystem
import Testing

struct AllocatorTests {
  @Test(arguments: [Int.min, -1, 0, 1, 4_095, 4_096, 8_192, 1 << 17, 1 << 20, Int.max])
  func `the heap grows by any number of bytes`(bytes: Int) {
    Allocator.growHeap(by: bytes)
  }
}
