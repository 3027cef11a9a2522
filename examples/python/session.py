import sqlanon

policy = sqlanon.load("demo/policy.yml")
engine = sqlanon.connect("demo/hospital.duckdb")           # opened for reading
evidence = sqlanon.check(policy, engine)
for result in evidence.checks:
    print(result.model, result.holds, result.measured, result.broken_classes)

planned = sqlanon.publish(policy, engine, dry_run=True)    # to write: connect("…", read_only=False)
print(planned.plan.passes, round(planned.plan.loss, 4))
engine.close()

gate = sqlanon.open_gateway("demo/gateway.yml")
answer = gate.answer("SELECT sex, count(*) AS n FROM patients GROUP BY sex", intervals=True)
print(answer.columns, len(answer.rows), answer.cost.epsilon)
gate.close()
