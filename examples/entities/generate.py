"""Generate `clinic.duckdb`: patients with their visits, and the drugs of each visit."""

import random

import duckdb

draw = random.Random(7)
WARDS = ["heart", "lung", "eyes", "skin"]
DRUGS = ["aspirin", "statin", "salbutamol", "cortisone"]
patients, visits, drugs = [], [], []
for patient in range(1000, 1600):
    age, sick = draw.randrange(20, 80), draw.randrange(4)
    patients.append((patient, age, draw.choice("fm")))
    for _ in range(min(1 + int(draw.expovariate(1.1)), 6)):
        visit = len(visits) + 1
        ward = WARDS[sick] if draw.random() < 0.8 else draw.choice(WARDS)
        diagnosis = f"{ward} {draw.choice(['infection', 'injury', 'cancer'])}"
        visits.append((visit, patient, ward, 1 + draw.randrange(12), diagnosis, draw.randrange(50, 900)))
        drugs += [(visit, draw.choice(DRUGS), draw.randrange(1, 4)) for _ in range(draw.randrange(2))]
draw.shuffle(visits)

database = duckdb.connect("clinic.duckdb")
database.execute("CREATE TABLE patients (patient INTEGER, age INTEGER, sex VARCHAR)")
database.execute("CREATE TABLE visits (visit INTEGER, patient INTEGER, ward VARCHAR, month INTEGER, diagnosis VARCHAR, cost INTEGER)")
database.execute("CREATE TABLE drugs (visit INTEGER, drug VARCHAR, packs INTEGER)")
for name, rows in (("patients", patients), ("visits", visits), ("drugs", drugs)):
    marks = ", ".join("?" for _ in rows[0])
    database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
print(f"{len(patients)} patients, {len(visits)} visits, {len(drugs)} drugs")
