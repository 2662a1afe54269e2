#if PostgreSQL
  import CanopyTesting
  import Testing

  /// The requirements that every store satisfies.
  @Suite(.timeLimit(.minutes(20)), .enabled(if: Database.url != nil, Database.isMissing))
  struct StoreContractTests {
    @Test(arguments: JournalContract<PostgresFixture>.checks)
    func `the journal satisfies the contract`(check: ContractCheck<PostgresFixture>) async throws {
      try await check.run()
    }

    @Test(arguments: HistoryContract<PostgresFixture>.checks)
    func `the history satisfies the contract`(check: ContractCheck<PostgresFixture>) async throws {
      try await check.run()
    }

    @Test(arguments: ClientWriteContract<PostgresFixture>.checks)
    func `the writes of clients satisfy the contract`(
      check: ContractCheck<PostgresFixture>
    ) async throws {
      try await check.run()
    }

    @Test(arguments: CheckpointContract<PostgresFixture>.checks)
    func `checkpoints satisfy the contract`(check: ContractCheck<PostgresFixture>) async throws {
      try await check.run()
    }

    @Test(arguments: DisconnectContract<PostgresFixture>.checks)
    func `on-disconnect writes satisfy the contract`(
      check: ContractCheck<PostgresFixture>
    ) async throws {
      try await check.run()
    }

    @Test(arguments: SharedJournalContract<PostgresNodes>.checks)
    func `the journal of several nodes satisfies the contract`(
      check: SharedCheck<PostgresNodes>
    ) async throws {
      try await check.run()
    }

    @Test func `the failures of logins satisfy the contract`() async throws {
      try await withNodes(["a", "b"]) { stores async throws in
        try await verifyContract(of: stores[0], and: stores[1])
      }
    }

    @Test func `the accounts satisfy the contract`() async throws {
      try await withNodes(["a"]) { try await verifyContract(of: $0[0]) }
    }
  }
#endif
