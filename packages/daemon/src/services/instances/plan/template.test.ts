import { describe, expect, it } from 'vitest';
import { renderTemplate, TemplateError } from './template.ts';
import { planTemplates, templateEntries } from './templates.ts';

const values = {
  container: { name: 'c1' },
  instance: { name: 'c1', type: 'container' },
  config: { 'user.user-data': '#cloud-config\n' },
  devices: {},
  properties: { default: 'fallback' },
  path: '/etc/x',
  trigger: 'create',
};

describe('template language', () => {
  it.each([
    ['plain', 'plain'],
    ['{{ container.name }}\n', 'c1\n'],
    ['{{ properties["default"] }}', 'fallback'],
    ['{{ config_get("user.user-data", properties.default) }}', '#cloud-config\n'],
    ['{{ config_get("user.none", properties.default) }}', 'fallback'],
    ['{{ config_get("user.none", "") }}', ''],
    ['{% if instance.type == "container" %}yes{% else %}no{% endif %}', 'yes'],
    ['{% if config_get("user.x", "") == "" %}a{% elif trigger == "create" %}b{% else %}c{% endif %}', 'a'],
    ['{% if config_get("user.user-data", "") == "" %}a{% elif trigger == "create" %}b{% else %}c{% endif %}', 'b'],
    ['{% if 1 == 2 %}{% if 1 == 1 %}x{% endif %}{% endif %}y', 'y'],
    ['{# note #}x', 'x'],
    ['{%- if 1 == 1 -%}a{%- endif -%}', 'a'],
    ['{ {{ "a" }} {x} }} {{', '{ a {x} }} {{'],
    ['{{ container.__proto__ }}{{ container.constructor }}', ''],
  ])('renders %s', (source, text) => {
    expect(renderTemplate(source, values)).toBe(text);
  });
  it.each([
    '{% include "/etc/passwd" %}',
    '{{ a b }}',
    '{{ x|upper }}',
    '{% if 1 == 1 %}',
    '{{ exec("id") }}',
    '{{ }}',
  ])('refuses %s', (source) => {
    expect(() => renderTemplate(source, values)).toThrow(TemplateError);
  });
});

describe('a template that means harm', () => {
  it.each(['{{', '{%', '{#', '{{ "', '{'])('%s a million times over takes no time', (opener) => {
    const source = opener.repeat(1_000_000 / opener.length);
    const start = performance.now();
    expect(renderTemplate(source, values)).toBe(source);
    expect(performance.now() - start).toBeLessThan(5000);
  });
});

describe('templates of an image', () => {
  const instance = {
    name: 'c1',
    type: 'container',
    architecture: 'x86_64',
    ephemeral: false,
    privileged: false,
    config: {},
    devices: {},
  };
  const entries = templateEntries({
    templates: {
      '/etc/hostname': { when: ['create', 'copy'], template: 'hostname.tpl', create_only: false, properties: {} },
      '/etc/issue': { when: ['start'], template: 'issue.tpl', create_only: true },
      '/bad': { when: 'start' },
    },
  });
  it('plans those of a trigger', () => {
    const files = { 'hostname.tpl': '{{ instance.name }}', 'issue.tpl': 'hello' };
    expect(planTemplates(entries, files, 'create', instance)).toEqual([
      { path: '/etc/hostname', content: 'c1', createOnly: false },
    ]);
    expect(planTemplates(entries, files, 'start', instance)).toEqual([
      { path: '/etc/issue', content: 'hello', createOnly: true },
    ]);
  });
  it('names a missing file', () => {
    expect(() => planTemplates(entries, {}, 'start', instance)).toThrow(
      'Template "issue.tpl" for "/etc/issue" is missing',
    );
  });
});
