{# `sqlanon check` as a test: a row for each requirement that does not hold.
   A table that sqlanon published needs no argument: it is measured under the policy of its release. #}
{% test sqlanon(model, qi=[], sensitive=[], person=none, k=none, l=none, t=none, models=[]) %}
  {% if not execute %}
    {{ return('select 1 where false') }}
  {% endif %}
  {% set words = ['check', target.path, model.schema ~ '.' ~ model.identifier, '--json', '--limit', 0] %}
  {% for option, value in [('--qi', qi), ('--sensitive', sensitive)] if value %}
    {% do words.extend([option, value if value is string else value | join(',')]) %}
  {% endfor %}
  {% for option, value in [('--person', person), ('--k', k), ('--l', l), ('--t', t)] if value is not none %}
    {% do words.extend([option, value]) %}
  {% endfor %}
  {% for model in models %}
    {% do words.extend(['--model', model]) %}
  {% endfor %}
  {# 1: something is broken, which the rows tell; 2 is an error. #}
  {% set found = sqlanon.run(words, expected=[0, 1]) %}
  select broken.model, broken.measured, broken.broken_classes
  from (select unnest(checks) as broken from read_json('{{ found }}', columns = {
    checks: 'STRUCT(model VARCHAR, measured DOUBLE, broken_classes BIGINT, holds BOOLEAN)[]'
  }))
  where not broken.holds
{% endtest %}
