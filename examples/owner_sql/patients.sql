-- What each column is to an attacker. A column without a label is not released.
SECURITY LABEL FOR sqlanon ON COLUMN patients.patient_id IS 'identifier; person';
SECURITY LABEL FOR sqlanon ON COLUMN patients.name IS 'identifier';
SECURITY LABEL FOR sqlanon ON COLUMN patients.age IS 'quasi_identifier; hierarchy age';
SECURITY LABEL FOR sqlanon ON COLUMN patients.zip IS 'quasi_identifier; hierarchy {prefix: {length: 5}}';
SECURITY LABEL FOR sqlanon ON COLUMN patients.sex IS 'quasi_identifier';
SECURITY LABEL FOR sqlanon ON COLUMN patients.disease IS 'sensitive';

CREATE MATERIALIZED VIEW research.patients
WITH (sqlanon.k = 5, sqlanon.l = 2, sqlanon.suppression_limit = 0.02, sqlanon.algorithm = 'full_domain')
AS SELECT patient_id, name, age, zip, sex, disease FROM patients;
