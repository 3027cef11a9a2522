-- Generated patients, nobody real.
select
    i as patient_id,
    cast(18 + hash(i) % 70 as integer) as age,
    '10' || lpad(cast(hash(i * 7) % 40 as varchar), 3, '0') as zip,
    case when hash(i * 3) % 2 = 0 then 'f' else 'm' end as sex,
    ['asthma', 'diabetes', 'flu', 'migraine', 'rash'][1 + cast(hash(i * 11) % 5 as integer)] as disease
from range(2000) as r(i)
