import CanopyEngine
import CanopyTesting
import Testing

@testable import CanopySQLite

struct RulesRecordStoreTests {
  @Test func `the record of the rules in force survives a restart, and at most one exists`()
    async throws
  {
    let folder = try Folder()
    let records = [
      RulesRecord(digest: "one", sequence: 0), RulesRecord(digest: "two", sequence: .max), nil,
      RulesRecord(digest: "é", sequence: 7),
    ]
    try await folder.withStore { store async throws in
      #expect(try await store.rulesRecord() == nil)
    }
    for record in records {
      try await folder.withStore { store async throws in
        try await store.setRulesRecord(RulesRecord(digest: "before", sequence: 5))
        try await store.setRulesRecord(record)
      }
      try await folder.withStore { store async throws in
        #expect(try await store.rulesRecord() == record)
        #expect(
          try await store.number("SELECT count(*) FROM rules_record") == (record == nil ? 0 : 1))
        #expect(try await store.problems().isEmpty)
      }
    }
  }
}
